/**
 * `relay status --watch`: on a terminal redrawn each second; elsewhere a line
 * when something has changed; with `--json` a line of JSON a second.
 *
 * It outlives the relay: while none answers it says so and goes on asking.
 * Ctrl-C ends it with 0, the terminal as it was and the last state on it.
 */
import { Clock, Effect, Result, Terminal } from "effect"
import { TerminalCapabilities } from "effect/cli"
import type { Status } from "../../admin/Api.ts"
import { quarantine } from "../../event/Event.ts"
import { screened } from "../../formats/Terminal.ts"

import { ask } from "./adminClient.ts"
import { Json } from "./globalFlags.ts"
import { count, paint, plain, print, toJson } from "./output.ts"
import { lazily } from "./Program.ts"
import { isRed, render } from "./statusReport.ts"

const every = "1 second"

/** The status now; or, where no relay answers, the words for it. */
const look = Effect.gen(function* () {
  const found = yield* Effect.result(ask((client) => client.status()))
  if (Result.isSuccess(found)) return { status: found.success, words: "" }
  const error = found.failure
  if (error._tag !== "CommandError" || error.reason !== "unreachable") return yield* error
  return { status: undefined, words: error.message.split("\n").map(plain).join("\n") }
})

/** Events a second between two looks. */
const rate = (before: Status | undefined, now: Status): string =>
  before === undefined || before.startedAt !== now.startedAt || before.now === now.now
    ? ""
    : `, ${Math.round(((now.journal.head - before.journal.head) / (now.now - before.now)) * 1_000)} a second`

const footer = (status: Status, before: Status | undefined): string =>
  `${count(status.journal.head, "event")}${rate(before, status)}; Ctrl-C ends this`

/** `journal ok, 12 events; lake running; chat waiting, 3 events wait`. */
export const summary = ({ journal, lanes, config, draining }: Status): string =>
  [
    `journal ${journal.health}, ${count(journal.head, "event")}`,
    ...(draining ? ["draining"] : []),
    ...(config.refusal === "" ? [] : ["the last reload was refused"]),
    ...lanes
      .filter(({ name, backlog, deadLetters }) => name !== quarantine || backlog + deadLetters > 0)
      .map(({ name, condition, backlog, deadLetters }) =>
        [
          `${plain(name)} ${condition}`,
          ...(backlog === 0 ? [] : [`${count(backlog, "event")} waiting`]),
          ...(deadLetters === 0 ? [] : [count(deadLetters, "dead letter")]),
        ].join(", "),
      ),
  ].join("; ")

const control = (codes: string): string => codes.replaceAll("^", "\u001b[")
/** A screen of its own, without a cursor; what is too wide is cut. */
const enter = control("^?1049h^?25l^?7l")
const leave = control("^?7h^?25h^?1049l")

/** Over what was drawn before, cut to the screen's height where that is known. */
const redrawn = (text: string, rows: number): string => {
  const lines = text.split("\n")
  return control(`^H${lines.slice(0, rows > 1 ? rows - 1 : lines.length).join("^K\n")}^K^J`)
}

const onTerminal = Effect.gen(function* () {
  const style = yield* paint
  const { display, rows } = yield* Terminal.Terminal
  const shown = { text: "" }
  yield* Effect.acquireRelease(Effect.ignore(display(enter)), () =>
    Effect.andThen(Effect.ignore(display(leave)), print(shown.text)),
  )
  let before: Status | undefined
  const draw = Effect.gen(function* () {
    const { status, words } = yield* look
    shown.text = status === undefined ? words : render(status, style)
    const below = status === undefined ? "Ctrl-C ends this" : footer(status, before)
    before = status
    yield* Effect.ignore(display(redrawn(screened(`${shown.text}\n\n${style("dim", below)}`), yield* rows)))
  })
  return yield* Effect.forever(Effect.andThen(draw, Effect.sleep(every)))
})

const elsewhere = Effect.fnUntraced(function* (json: boolean) {
  let before = ""
  const tell = Effect.gen(function* () {
    const { status, words } = yield* look
    if (json)
      return yield* print(toJson(status === undefined ? { red: true, words } : { red: isRed(status), ...status }))
    const line = status === undefined ? words.replaceAll(/\s+/g, " ") : summary(status)
    if (line === before) return
    before = line
    yield* print(`${new Date(yield* Clock.currentTimeMillis).toISOString()}  ${line}`)
  })
  return yield* Effect.forever(Effect.andThen(tell, Effect.sleep(every)))
})

/** Until a signal. */
export const watch = Effect.gen(function* () {
  const { canAnimate } = yield* TerminalCapabilities.TerminalCapabilities
  const json = yield* Json
  const { firstSignal } = yield* lazily(() => import("../../runtime/Runtime.ts"))
  yield* Effect.raceFirst(canAnimate && !json ? onTerminal : elsewhere(json), firstSignal)
}).pipe(Effect.scoped)
