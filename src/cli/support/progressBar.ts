/** A progress bar for long requests to the relay: on a terminal only, and erased when the answer is there. */
import { Effect, Terminal } from "effect"
import { TerminalCapabilities } from "effect/cli"
import { ask } from "./adminClient.ts"
import { Json } from "./flags.ts"
import { plain } from "./output.ts"

const every = "300 millis"
const width = 30

/** `[###------] 33 %  replay to lake`. */
export const bar = (what: string, share: number): string => {
  const done = Math.round(share * width)
  return `[${"#".repeat(done)}${"-".repeat(width - done)}] ${String(Math.floor(share * 100)).padStart(3)} %  ${plain(what)}`
}

/** Clears the line. */
export const erase = "\r\u001b[K"

/** Awaits `answer` and shows the progress of `what`, as the relay's status calls it. */
export const withProgressBar = Effect.fnUntraced(function* <A, E, R>(what: string, answer: Effect.Effect<A, E, R>) {
  const { canAnimate } = yield* TerminalCapabilities.TerminalCapabilities
  if (!canAnimate || (yield* Json)) return yield* answer
  const { display } = yield* Terminal.Terminal
  const draw = Effect.gen(function* () {
    yield* Effect.sleep(every)
    const { work } = yield* ask((client) => client.status())
    const one = work.find((item) => item.what === what)
    if (one !== undefined) yield* display(`${erase}${bar(what, one.share)}`)
  })
  return yield* Effect.raceFirst(answer, Effect.forever(Effect.ignore(draw))).pipe(
    Effect.ensuring(Effect.ignore(display(erase))),
  )
})
