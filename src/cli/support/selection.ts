/** The flags that select events, which all commands share. */
import { Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { type EventSelection, outcomes } from "../../admin/api/EventSelection.ts"
import { Rate } from "../../admin/replay/ReplayReport.ts"
import { eventTypes, relayEventTypes } from "../../event/EventType.ts"
import { nearest } from "../../event/Nearest.ts"
import * as Pattern from "../../routing/Pattern.ts"
import { ask } from "./adminClient.ts"
import { usage } from "./CommandError.ts"
import { given, text, webhook } from "./flags.ts"
import { plain, say } from "./output.ts"
import { requirePatterns, timesOf } from "./values.ts"

/** The flags for dead letters. There is no flag for the outcome, which is always `dead`. */
export const letterFlags = {
  sink: text("sink", "NAME", "Only at this sink; _quarantine has deliveries that were signed but could not be routed"),
  type: Flag.String("type").pipe(
    Flag.withMetavar("PATTERN"),
    Flag.withDescription("Only event types that match, such as appointment.**; may be repeated"),
    Flag.atLeast(0),
  ),
  account: text("account", "ID", "Only of this account"),
  object: text("object", "ID", "Only of the object with this id, such as a client or an appointment"),
  webhook,
  since: text("since", "TIME", "Received at or after TIME: 2026-11-20T08:00:00Z, 2h for two hours ago, yesterday"),
  until: text("until", "TIME", "Received before TIME"),
  endedSince: text("ended-since", "TIME", "Dead, delivered or dropped at or after TIME"),
  endedUntil: text("ended-until", "TIME", "Dead, delivered or dropped before TIME"),
}

export const eventFlags = {
  ...letterFlags,
  outcome: Flag.Literals("outcome", outcomes).pipe(
    Flag.withDescription("Only events with this outcome at a sink; with --sink, at that one; unrouted went to none"),
    Flag.optional,
  ),
}

/** The maximum rate of a replay. */
export const rate = Flag.Int("rate").pipe(
  Flag.withMetavar("N"),
  Flag.withDescription("At most N events a second, for a receiver that has just recovered"),
  Flag.withSchema(Rate),
  Flag.optional,
)

interface Flags {
  readonly sink: Option.Option<string>
  readonly outcome?: Option.Option<(typeof outcomes)[number]>
  readonly type: ReadonlyArray<string>
  readonly account: Option.Option<string>
  readonly object: Option.Option<string>
  readonly webhook: Option.Option<string>
  readonly since: Option.Option<string>
  readonly until: Option.Option<string>
  readonly endedSince: Option.Option<string>
  readonly endedUntil: Option.Option<string>
}

/** Returns the selection for the flags; empty if none was given. */
export const selectionOf = Effect.fnUntraced(function* ({
  type,
  since,
  until,
  endedSince,
  endedUntil,
  ...names
}: Flags) {
  yield* requirePatterns(type)
  const times = yield* timesOf({ since, until, endedSince, endedUntil })
  for (const [from, to, flags] of [
    [times.since, times.until, "--since must be before --until"],
    [times.endedSince, times.endedUntil, "--ended-since must be before --ended-until"],
  ] as const) {
    if (from !== undefined && to !== undefined && from >= to) return yield* usage(flags)
  }
  const { sink, account, object, webhook, outcome } = names
  if (Option.contains(object, "")) return yield* usage("the object's id is empty")
  const [first, ...more] = type
  const selection: EventSelection = {
    ...given({ sink, account, object, webhook, ...(outcome !== undefined && { outcome }) }),
    ...(first !== undefined && { types: [first, ...more] as const }),
    ...times,
  }
  return selection
})

/**
 * Names the parts of a selection that the relay doesn't know, if it found nothing. It is not an error, because the
 * journal may have events of a sink or a webhook that the config has no longer.
 */
export const sayUnknown = Effect.fnUntraced(function* ({
  sink,
  webhook,
  types,
}: Pick<EventSelection, "sink" | "webhook" | "types">) {
  if ((sink ?? webhook ?? types) === undefined) return
  const status = yield* ask((client) => client.status())
  for (const [what, name, all] of [
    ["sink", sink, status.lanes],
    ["webhook", webhook, [...status.webhooks, { name: "relay" }]],
  ] as const) {
    const names = all.map((one) => one.name)
    if (name === undefined || names.includes(name)) continue
    const near = nearest(name, names)
    const hint = near === undefined ? "`relay status` shows them" : `did you mean ${plain(near)}?`
    yield* say(`there is no ${what} ${plain(name)} in the config: ${hint}`)
  }
  for (const type of types ?? []) {
    if ([...eventTypes, ...relayEventTypes].some(Pattern.make(type).matches)) continue
    yield* say(`no event type of the scheduling service or the relay matches ${plain(type)}`)
  }
})
