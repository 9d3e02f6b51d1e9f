/** Renders the running relay's status: the problems, worst first, then the journal, the lanes, the signing secrets and the certificates. */
import { Clock, Effect, Result, Terminal } from "effect"
import { TerminalCapabilities } from "effect/cli"
import {
  byLevel,
  health,
  type Level,
  laneLevel,
  lastSigned,
  levelOf,
  type StatusProblem,
} from "../../admin/status/Health.ts"
import type { Fleet, Lane, Status } from "../../admin/status/Status.ts"
import { quarantine } from "../../event/Event.ts"
import { bounded, screened } from "../../formats/Texts.ts"
import { firstSignal } from "../../runtime/Runtime.ts"
import { ask } from "../support/adminClient.ts"
import { unreachable } from "../support/CommandError.ts"
import { Json } from "../support/flags.ts"
import { loadJournal } from "../support/loadConfig.ts"
import {
  bytes,
  count,
  folded,
  fromNow,
  headedTable,
  instant,
  type Paint,
  paint,
  plain,
  print,
  printWhole,
  span,
  toJson,
} from "../support/output.ts"
import { lazily, withDeadline } from "../support/Program.ts"

// The tables of `relay status` below its lanes: relays, signing secrets and certificates.

const streams = ({ streams, shared }: Fleet["relays"][number]): string => {
  const own = streams.length - (shared ? 1 : 0)
  return shared ? `${own} and the shared one` : String(own)
}

const fleetTable = ({ relays }: Fleet, width: number): string =>
  headedTable(width, [
    ["RELAY", "VERSION", "CONFIG", "ADMIN", "STREAMS", "WAITING", "LAST SEEN"],
    ...relays.map((relay) => [
      `${relay.name}${relay.isSelf ? " (this one)" : ""}`,
      relay.version || "-",
      relay.configHash || "-",
      relay.address || "-",
      streams(relay),
      String(relay.waiting),
      `${span(relay.age)} ago`,
    ]),
  ])

const secretsTable = ({ webhooks, now }: Status, width: number): string =>
  headedTable(width, [
    ["WEBHOOK", "SECRET", "LAST SIGNED", "EXPIRES"],
    ...webhooks.flatMap(({ name, secrets }) =>
      secrets.map((secret) => {
        const { expires } = secret
        return [name, secret.name, lastSigned(secret, now), expires === undefined ? "-" : fromNow(expires, now)]
      }),
    ),
  ])

const certificatesTable = ({ certificates, now }: Status, width: number): string =>
  headedTable(width, [
    ["CERTIFICATE", "SUBJECT", "EXPIRES"],
    ...certificates.map(({ key, subject, notAfter }) => [key, subject, fromNow(notAfter, now)]),
  ])

/** Sorts lanes by severity, then by name. The quarantine is left out while it is empty. */
const ordered = (lanes: ReadonlyArray<Lane>): ReadonlyArray<Lane> =>
  lanes
    .filter((lane) => lane.name !== quarantine || lane.deadLetters + lane.backlog > 0)
    .toSorted((a, b) => byLevel(laneLevel(a), laneLevel(b)) || a.name.localeCompare(b.name))

const age = ({ oldestAt }: Lane, now: number): string => (oldestAt === 0 ? "-" : span(now - oldestAt))

const condition = ({ condition, pausedUntil, pausedThen }: Lane): string =>
  condition === "paused" && pausedUntil !== undefined
    ? `paused until ${instant(pausedUntil)}${pausedThen === undefined ? "" : `, then ${pausedThen}`}`
    : condition

/** The columns that a narrow terminal leaves out, in this order. */
const spare = ["TYPE", "LATENCY", "OLDEST", "RETRYING"]

export const lanesTable = (lanes: ReadonlyArray<Lane>, now: number, width: number): string =>
  headedTable(
    width,
    [
      ["SINK", "TYPE", "STATE", "BACKLOG", "OLDEST", "LATENCY", "RETRYING", "DEAD LETTERS"],
      ...ordered(lanes).map((lane) => [
        lane.name,
        lane.type || "-",
        condition(lane),
        String(lane.backlog),
        age(lane, now),
        lane.latency === undefined ? "-" : bounded(lane.latency),
        String(lane.retrying),
        String(lane.deadLetters),
      ]),
    ],
    spare,
  )

/** Returns the counts of the last hour. If they began later, says when. */
const hourLine = ({ hour, now, fleet }: Status): string => {
  const { since, received, delivered, refused, failed } = hour
  const when = now - since < 3_600_000 ? `since ${new Date(since).toISOString().slice(11, 16)} UTC` : "in the last hour"
  const whose = fleet === undefined ? "" : " by this relay"
  return `${when}${whose}: ${received} received, ${delivered} delivered, ${refused} refused, ${count(failed, "failed attempt")}`
}

const styles = { critical: "red", warning: "yellow", note: "dim" } as const satisfies Record<Level, string>

const shown = (problem: StatusProblem, style: Paint): string => {
  const { name, lines, action, state } = problem
  const level = levelOf(problem)
  return [
    `${style(styles[level], level)}  ${style("bold", plain(name))}: ${lines.map(plain).join("\n  ")}`,
    ...(action === "" ? [] : [`  what to do: ${plain(action)}`]),
    style("dim", `  more: relay runbook ${state}`),
  ].join("\n")
}

export const render = (status: Status, style: Paint, width: number): string => {
  const { version, configFile, startedAt, now, draining, journal, lanes } = status
  const asOf = journal.answeredAt === undefined ? "" : `, as of ${span(now - journal.answeredAt)} ago`
  const filling = journal.filling > 0 ? ` (${journal.filling} % full)` : ""
  return [
    ...health(status).problems.flatMap((problem) => [shown(problem, style), ""]),
    `relay ${plain(version)} with ${plain(configFile)}, up ${span(now - startedAt)}${draining ? ", draining" : ""}`,
    `journal ${journal.health}: ${count(journal.head, "entry")} so far, ${bytes(journal.usedBytes)} of ${bytes(journal.maxBytes)}${filling}${asOf}`,
    hourLine(status),
    ...status.work.map(({ what, share }) => `in progress: ${plain(what)}, ${Math.floor(share * 100)} %`),
    "",
    lanesTable(lanes, now, width),
    ...(status.fleet === undefined ? [] : ["", fleetTable(status.fleet, width)]),
    "",
    secretsTable(status, width),
    ...(status.certificates.length === 0 ? [] : ["", certificatesTable(status, width)]),
  ].join("\n")
}

// Requests the status of the running relay.

/** Says why the relay does not answer. Its database may hang, and then the status does too. */
const unanswered = Effect.fnUntraced(function* (time: string) {
  const { checkJournal } = yield* lazily(() => import("./doctorFindings.ts"))
  const looked = yield* Effect.flatMap(loadJournal, checkJournal).pipe(Effect.orElseSucceed(() => []))
  const wrong = looked.filter(({ verdict }) => verdict === "wrong").map(({ message }) => message)
  const why = wrong.length === 0 ? "it may hang" : `its journal can't be used: ${wrong.join("; ")}`
  return yield* unreachable(`the relay does not answer within ${time}: ${why}`)
})

export const askStatus = ask((client) => client.status()).pipe(withDeadline(unanswered))

// `relay status --watch`. On a terminal, the status is redrawn each second. Otherwise a line is printed
// for each change, or with `--json` a line of JSON each second.
//
// While no relay answers, it says so and keeps polling. Ctrl-C exits with 0, restores the terminal and
// prints the last status on it.

const every = "1 second"

/** The status, or the message that no relay answers. */
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

/** Summarizes the status in a line, such as `journal ok, 12 events; lake running; chat waiting, 3 events wait`. */
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
/** Switches to the alternate screen, and turns the cursor and line wrap off. */
const enter = control("^?1049h^?25l^?7l")
const leave = control("^?7h^?25h^?1049l")

/** Returns a frame that replaces the last one. If the screen's height is known, the frame is cut to it. */
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
    // Read for each frame, because the terminal's size may change.
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

export const watchStatus = Effect.gen(function* () {
  const { canAnimate } = yield* TerminalCapabilities.TerminalCapabilities
  const json = yield* Json
  yield* Effect.raceFirst(canAnimate && !json ? onTerminal : onPipe(json), firstSignal)
}).pipe(Effect.scoped)
