/**
 * `relay status --watch`: redrawn each second on a terminal; otherwise a line for
 * each change; with `--json` a line of JSON each second.
 *
 * While no relay answers, it says so and keeps polling. Ctrl-C exits with 0,
 * restores the terminal and prints the last status on it.
 */
import { Clock, Effect, Result, Terminal } from "effect"
import { TerminalCapabilities } from "effect/cli"
import type { Status } from "../../admin/Api.ts"
import { health } from "../../admin/Health.ts"
import { quarantine } from "../../event/Event.ts"
import { screened } from "../../formats/Terminal.ts"
import { askStatus } from "./askStatus.ts"
import { Json } from "./flags.ts"
import { folded } from "./layout.ts"
import { count, paint, plain, print, printWhole, toJson } from "./output.ts"
import { lazily } from "./Program.ts"
import { render } from "./statusReport.ts"

const every = "1 second"

/** The status; or, where no relay answers, the message that says so. */
const poll = Effect.gen(function* () {
  const found = yield* Effect.result(askStatus)
  if (Result.isSuccess(found)) return { status: found.success, message: "" }
  const error = found.failure
  if (error._tag !== "CommandError" || error.reason !== "unreachable") return yield* error
  return { status: undefined, message: error.message.split("\n").map(plain).join("\n") }
})

/** Events per second since the last poll. */
const rate = (before: Status | undefined, now: Status): string =>
  before === undefined || before.startedAt !== now.startedAt || before.now === now.now
    ? ""
    : `, ${Math.round(((now.journal.head - before.journal.head) / (now.now - before.now)) * 1_000)} a second`

const footer = (status: Status, before: Status | undefined): string =>
  `${count(status.journal.head, "entry")}${rate(before, status)}; Ctrl-C to stop`

/** `journal ok, 12 events; lake running; chat waiting, 3 events wait`. */
const summary = ({ journal, lanes, config, draining }: Status): string =>
  [
    `journal ${journal.health}, ${count(journal.head, "entry")}`,
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
/** The alternate screen, without cursor and line wrap. */
const enter = control("^?1049h^?25l^?7l")
const leave = control("^?7h^?25h^?1049l")

/** Redraws over the last frame, cut to the screen's height where that is known. */
const redrawn = (text: string, rows: number): string => {
  const lines = text.split("\n")
  return control(`^H${lines.slice(0, rows > 1 ? rows - 1 : lines.length).join("^K\n")}^K^J`)
}

const onTerminal = Effect.gen(function* () {
  const style = yield* paint
  const { columns, display, rows } = yield* Terminal.Terminal
  const shown = { text: "" }
  yield* Effect.acquireRelease(Effect.ignore(display(enter)), () =>
    Effect.andThen(Effect.ignore(display(leave)), print(shown.text)),
  )
  let before: Status | undefined
  const draw = Effect.gen(function* () {
    const { status, message } = yield* poll
    // Each time: the terminal may have another size by now.
    const width = (yield* columns) || Number.POSITIVE_INFINITY
    shown.text = status === undefined ? message : render(status, style, width)
    const below = status === undefined ? "Ctrl-C to stop" : footer(status, before)
    before = status
    yield* Effect.ignore(
      display(redrawn(screened(folded(`${shown.text}\n\n${style("dim", below)}`, width)), yield* rows)),
    )
  })
  return yield* Effect.forever(Effect.andThen(draw, Effect.sleep(every)))
})

const onPipe = Effect.fnUntraced(function* (json: boolean) {
  let before = ""
  const printChange = Effect.gen(function* () {
    const { status, message } = yield* poll
    if (json)
      return yield* printWhole(
        toJson(status === undefined ? { level: "unknown", message } : { level: health(status).level, ...status }),
      )
    const line = status === undefined ? message.replaceAll(/\s+/g, " ") : summary(status)
    if (line === before) return
    before = line
    yield* print(`${new Date(yield* Clock.currentTimeMillis).toISOString()}  ${line}`)
  })
  return yield* Effect.forever(Effect.andThen(printChange, Effect.sleep(every)))
})

export const watch = Effect.gen(function* () {
  const { canAnimate } = yield* TerminalCapabilities.TerminalCapabilities
  const json = yield* Json
  const { firstSignal } = yield* lazily(() => import("../../runtime/Runtime.ts"))
  yield* Effect.raceFirst(canAnimate && !json ? onTerminal : onPipe(json), firstSignal)
}).pipe(Effect.scoped)
