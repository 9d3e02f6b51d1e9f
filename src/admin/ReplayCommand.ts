/** A replay as the words of its command: those of `relay replay` that choose the same events. */
import { instant } from "../formats/Amounts.ts"
import type { Replay } from "./ReplayApi.ts"

export const replayWords = ({ events, to }: Pick<Replay, "events" | "to">): ReadonlyArray<string> => {
  const { id, types = [], since, until, ...filters } = events
  const time = (name: string, at: number | undefined) => (at === undefined ? [] : [name, instant(at)])
  return [
    "replay",
    ...(id === undefined ? [] : [id]),
    ...(to === "routed" ? ["--routed"] : ["--sink", to.sink]),
    ...types.flatMap((type) => ["--type", type]),
    ...time("--since", since),
    ...time("--until", until),
    ...Object.entries(filters).flatMap(([name, value]) => [`--${name}`, String(value)]),
  ]
}
