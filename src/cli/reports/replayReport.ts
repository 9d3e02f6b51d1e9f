/** Follows a replay and reports it on the command line. */
import { Effect, Option } from "effect"
import { replayWords } from "../../admin/replay/ReplayCommand.ts"
import type { Replay } from "../../admin/replay/ReplayReport.ts"
import { shellLine } from "../../formats/Texts.ts"
import { ask, progressBar } from "../support/adminClient.ts"
import { unreachable } from "../support/CommandError.ts"
import { count, headedTable, instant, plain, say } from "../support/output.ts"
import { nameOf } from "./eventReport.ts"

export const hasEnded = ({ endedAt }: Replay): boolean => endedAt !== undefined

/** Returns the number of events that a replay has queued, and their sinks. */
export const queued = ({ count: events, dryRun, to }: Replay): string => {
  const again = `${count(events, "event")} ${dryRun ? "would be " : ""}queued`
  return to === "routed"
    ? `${again} again, each for the sinks that it was routed to`
    : `${again} for ${plain(to.sink)} again`
}

/** Shows the events that would be sent as tables: their number by type and sink, and the first and last events. */
export const preview = (
  { groups, others, first, last }: Pick<Replay, "groups" | "others" | "first" | "last">,
  width: number,
): string => {
  const amount = (number: number) => number.toLocaleString("en-US")
  const rows = groups.map(({ type, sink, count }) => [type || "-", sink, amount(count)])
  const rest = others === 0 ? [] : [["others", "", amount(others)]]
  const shown = (title: string, events: typeof first) => {
    const rows = events.map(({ sequence, id, type, accountId, receivedAt }) => [
      nameOf({ id, sequence }),
      type || "-",
      accountId || "-",
      instant(receivedAt),
    ])
    return rows.length === 0 ? [] : [headedTable(width, [[title, "TYPE", "ACCOUNT", "RECEIVED"], ...rows])]
  }
  const counted = headedTable(width, [["TYPE", "SINK", "EVENTS"], ...rows, ...rest])
  return `\n${[counted, ...shown("FIRST", first), ...shown("LAST", last)].join("\n\n")}`
}

const every = "250 millis"
/** Without a terminal, a line is printed after this many polls, which is every ten seconds. */
const looksPerLine = 40

const progress = ({ dryRun, count: events, message }: Replay): string =>
  [
    `${dryRun ? "dry run" : "replay"}: ${count(events, "event")}`,
    ...(message === "" ? [] : [`waiting: ${message}`]),
  ].join(", ")

/** Polls a replay until it has ended, and shows its progress as a bar on a terminal, otherwise as lines. */
export const followed = Effect.fnUntraced(function* (started: Replay) {
  const { show, erasedAfter } = yield* progressBar
  let replay = started
  let wasWaiting = false
  const inWords = (looks: number) => {
    const isWaiting = replay.state === "waiting"
    const isNews = (isWaiting && !wasWaiting) || looks % looksPerLine === 0
    wasWaiting = isWaiting
    return isNews ? say(`${Math.floor(replay.share * 100)} %: ${progress(replay)}`) : Effect.void
  }
  const look = Effect.gen(function* () {
    // The first poll is early, because most replays end soon.
    for (let looks = 1; !hasEnded(replay); looks++) {
      yield* Effect.sleep(looks === 1 ? "20 millis" : every)
      replay = yield* ask((client) => client.replays.show({ params: { id: started.id } }))
      if (!hasEnded(replay)) yield* show(progress(replay), replay.share, inWords(looks))
    }
    return replay
  })
  return yield* look.pipe(
    Effect.catchIf(
      () => !replay.dryRun,
      ({ message }) =>
        Effect.fail(
          unreachable(
            `${message}\n  It had queued ${count(replay.count, "event")} again when it last answered: \`--after ${replay.reached}\` continues from there.`,
          ),
        ),
    ),
    erasedAfter,
  )
})

/** Says how many newer events of the same keys each ordered sink has already received. */
export const newerNotes = ({ newer }: Pick<Replay, "newer">): ReadonlyArray<string> =>
  newer.map(({ sink, count: amount, atLeast }) => {
    const events = `${atLeast === true ? "at least " : ""}${count(amount, "newer event")}`
    return `${events} of the same keys ${amount === 1 ? "was" : "were"} delivered to ${plain(sink)} already: it would get older events of these keys after them`
  })

/** Returns notes about the count. */
export const notes = (replay: Replay): ReadonlyArray<string> => {
  const { leftOut, removedSinks, undelivered, dryRun, to, events } = replay
  const note = (amount: number, word: string, text: string) => (amount === 0 ? [] : [`${count(amount, word)} ${text}`])
  const [are, them] = undelivered === 1 ? ["is", "it"] : ["are", "them"]
  return [
    ...note(
      undelivered,
      "event",
      `${are} still pending or retrying at a sink, which ${dryRun ? "would receive" : "receives"} ${them} twice`,
    ),
    ...note(
      leftOut.copies,
      "event",
      `left out: copies that replays, moves or imports made${events.id === undefined ? "" : "; `relay events` shows their places in the log, and `relay replay seq_N` sends one"}`,
    ),
    ...note(leftOut.quarantined, "event", "left out: in quarantine; `relay dlq replay` routes them again"),
    ...note(leftOut.erased, "event", "left out: their bodies were erased; `relay explain` says when"),
    ...note(
      leftOut.unrouted,
      "event",
      `left out: routed to no sink of the config${to === "routed" ? "; --to SINK sends them" : ""}`,
    ),
    ...note(leftOut.gone, "event", "left out: pruned meanwhile, or unreadable"),
    ...removedSinks.flatMap(({ sink, count: amount }) =>
      note(amount, "event", `routed to ${plain(sink)}, which is no longer in the config`),
    ),
    ...newerNotes(replay),
  ]
}

/** Returns the command that replays the same events. `more` overrides parts of the request. */
export const commandLine = (
  command: string,
  file: Option.Option<string>,
  { events, ...rest }: Pick<Replay, "events" | "to" | "rate">,
  more: Partial<Replay["events"]> = {},
): string => {
  const words = replayWords({ events: { ...events, ...more }, ...rest })
  return `${command} ${shellLine(...words, ...Option.match(file, { onNone: () => [], onSome: (file) => ["-c", file] }))}`
}
