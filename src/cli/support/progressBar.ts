/** The progress of long work: a bar on a terminal, which is erased at the end; lines elsewhere, and nothing with `--json`. */
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
const erase = "\r\u001b[K"

export const progressBar = Effect.gen(function* () {
  const { canAnimate } = yield* TerminalCapabilities.TerminalCapabilities
  const { display } = yield* Terminal.Terminal
  const isJson = yield* Json
  const isDrawn = canAnimate && !isJson
  const shown = (text: string) => (isDrawn ? Effect.ignore(display(text)) : Effect.void)
  return {
    isDrawn,
    /** `inWords` says the same where no bar is drawn. */
    show: (what: string, share: number, inWords: Effect.Effect<void> = Effect.void) =>
      isDrawn || isJson ? shown(`${erase}${bar(what, share)}`) : inWords,
    erasedAfter: <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.ensuring(work, shown(erase)),
  }
})

/** Awaits `answer` and shows the progress of `what`, as the relay's status calls it. */
export const withProgressBar = Effect.fnUntraced(function* <A, E, R>(what: string, answer: Effect.Effect<A, E, R>) {
  const { isDrawn, show, erasedAfter } = yield* progressBar
  if (!isDrawn) return yield* answer
  const draw = Effect.gen(function* () {
    yield* Effect.sleep(every)
    const { work } = yield* ask((client) => client.status())
    const one = work.find((item) => item.what === what)
    if (one !== undefined) yield* show(what, one.share)
  })
  return yield* erasedAfter(Effect.raceFirst(answer, Effect.forever(Effect.ignore(draw))))
})
