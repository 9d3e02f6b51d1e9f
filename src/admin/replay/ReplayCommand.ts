/** Writes selections as commands that select the same events. */
import { instant } from "../../formats/Texts.ts"
import type { Selection } from "../api/DeadLetterApi.ts"
import type { EventSelection } from "../api/EventSelection.ts"
import type { Replay } from "./ReplayReport.ts"

const flags = {
  sink: "--sink",
  outcome: "--outcome",
  types: "--type",
  account: "--account",
  object: "--object",
  webhook: "--webhook",
  since: "--since",
  until: "--until",
  endedSince: "--ended-since",
  endedUntil: "--ended-until",
} as const satisfies Record<keyof EventSelection, string>

/** Returns the command line's flags of a selection. */
export const selectionWords = (selection: EventSelection): ReadonlyArray<string> =>
  (Object.keys(flags) as Array<keyof typeof flags>).flatMap((key) => {
    const value = selection[key]
    if (value === undefined) return []
    return [value].flat().flatMap((one) => [flags[key], typeof one === "number" ? instant(one) : one])
  })

/** Returns the command of a replay. */
export const replayWords = ({ events, to, rate }: Pick<Replay, "events" | "to" | "rate">): ReadonlyArray<string> => {
  const { id, after, through, ...selection } = events
  return [
    "replay",
    ...(id === undefined ? [] : [id]),
    ...(to === "routed" ? ["--routed"] : ["--to", to.sink]),
    ...selectionWords(selection),
    ...(after === undefined ? [] : ["--after", after]),
    ...(through === undefined ? [] : ["--through", through]),
    ...(rate === undefined ? [] : ["--rate", String(rate)]),
  ]
}

/** Returns the arguments that select dead letters in `relay dlq replay` and `relay dlq drop`. */
export const letterWords = (selection: Selection): ReadonlyArray<string> => {
  if ("ids" in selection) return selection.ids
  const words = selectionWords(selection)
  return words.length === 0 ? ["--all"] : words
}
