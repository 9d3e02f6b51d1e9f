/**
 * The metrics in Prometheus text format, rendered for each scrape from what
 * ingest and the lanes count in plain numbers: updating a metric would cost
 * more than counting.
 */
import { Clock, Effect } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import { laneConditions } from "../delivery/LaneStatus.ts"
import { Lanes } from "../delivery/Lanes.ts"
import { durationBuckets } from "../delivery/lane/AttemptStats.ts"
import { redacted } from "../event/Envelope.ts"
import { quarantine } from "../event/Event.ts"
import { refusals, signatureRefusals } from "../ingest/Answers.ts"
import * as Counters from "../ingest/Counters.ts"
import { Ingest } from "../ingest/Ingest.ts"
import { Archive } from "../journal/Archive.ts"
import type { FleetStatus } from "../journal/FleetStatus.ts"
import { Reload } from "../reload/Reload.ts"
import { reasons } from "../sinks/Sink.ts"
import { notReady } from "./Readiness.ts"
import { RelayInfo } from "./RelayInfo.ts"

export const contentType = "text/plain; version=0.0.4; charset=utf-8"

type Labels = Readonly<Record<string, string | number>>
type Sample = readonly [labels: Labels, value: number]

const escaped = (value: string | number): string =>
  String(value).replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"')

const labelled = (labels: Labels): string => {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`)
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`
}

/** One metric with its samples, in the text format's way. */
const metric = (type: "counter" | "gauge", name: string, help: string, samples: ReadonlyArray<Sample>): string =>
  samples.length === 0
    ? ""
    : [
        `# HELP ${name} ${help}`,
        `# TYPE ${name} ${type}`,
        ...samples.map(([labels, value]) => `${name}${labelled(labels)} ${value}`),
        "",
      ].join("\n")

interface Histogram {
  readonly labels: Labels
  /** A count for each bound, and one above. */
  readonly counts: ReadonlyArray<number>
  readonly sum: number
}

const histogram = (
  name: string,
  help: string,
  bounds: ReadonlyArray<number>,
  histograms: ReadonlyArray<Histogram>,
): string => {
  const lines = histograms.flatMap(({ labels, counts, sum }) => {
    let total = 0
    const buckets = [...bounds, "+Inf"].map((le, index) => {
      total += counts[index] ?? 0
      return `${name}_bucket${labelled({ ...labels, le })} ${total}`
    })
    return [...buckets, `${name}_sum${labelled(labels)} ${sum}`, `${name}_count${labelled(labels)} ${total}`]
  })
  return lines.length === 0 ? "" : [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`, ...lines, ""].join("\n")
}

/** Each of several relays on one journal counts the streams that it owns: the sum over all is the fleet's. */
const own = "in the streams that this relay owns"
/** Every relay of a fleet reports the same value. */
const alike = "the same at every relay on one database"

const ofFleet = ({ owned, counters, beatAge }: FleetStatus): ReadonlyArray<string> => [
  metric("gauge", "relay_streams_owned", "Streams that this relay delivers", [[{}, owned]]),
  metric("counter", "relay_takeovers_total", "Streams taken over from relays that stood still", [
    [{}, counters.takeovers],
  ]),
  metric("counter", "relay_fenced_total", "Streams that another relay has taken over from this one", [
    [{}, counters.fenced],
  ]),
  metric("gauge", "relay_beat_age_seconds", "Age of the last sign of life that the database answered", [
    [{}, beatAge / 1_000],
  ]),
]

/** A delivery's answers when it is not accepted: 500 is a bug of ours. */
const codes = [...new Set([500, ...Object.values(refusals).map(({ answer }) => answer.status)])]

const noAttempts = Object.fromEntries(["delivered", ...reasons].map((outcome) => [outcome, 0]))

export const render = Effect.gen(function* () {
  const { version } = yield* RelayInfo
  const { certificates } = (yield* ActiveConfig).current.config
  const { counters } = yield* Ingest
  const journal = yield* (yield* Archive).status
  const { fleet: relays } = yield* Archive
  const fleet = relays && (yield* relays.status)
  const lanes = yield* (yield* Lanes).status
  const sinks = lanes.filter(({ name, condition }) => name !== quarantine && condition !== "orphaned")
  const { loadedAt, refusal } = yield* (yield* Reload).status
  const why = yield* notReady
  const now = yield* Clock.currentTimeMillis
  const { webhooks: configured } = (yield* ActiveConfig).current.config
  for (const { name, respond } of configured) {
    const { answers } = Counters.ofWebhook(counters, name)
    answers.set(respond, answers.get(respond) ?? 0)
  }
  const webhooks = [...counters.webhooks]
  /** The series of `from` are there from the start: a counter that begins with its first failure has no increase there. */
  const perWebhook = (
    label: string,
    counted: "answers" | "signatureFailures" | "secretsLastUsed" | "events" | "unredacted",
    from: ReadonlyArray<string | number> = [],
  ): ReadonlyArray<Sample> =>
    webhooks.flatMap(([webhook, counters]) => {
      const zeros = webhook === "" ? [] : from.map((key) => [key, 0] as const)
      const counts = new Map<string | number, number>([...zeros, ...counters[counted]])
      return [...counts].map(([key, value]): Sample => [{ webhook, [label]: key }, value])
    })
  const perLane = (
    counted: "backlog" | "retrying" | "deadLetters" | "duplicateBound" | "bugs",
  ): ReadonlyArray<Sample> => lanes.map((lane) => [{ sink: lane.name }, lane[counted]])

  return [
    metric(
      "counter",
      "relay_webhook_requests_total",
      "Requests answered, by status; no webhook: none took it",
      perWebhook("code", "answers", codes),
    ),
    metric(
      "counter",
      "relay_signature_failures_total",
      "Deliveries refused for their signature",
      perWebhook("reason", "signatureFailures", Object.keys(signatureRefusals)),
    ),
    metric(
      "gauge",
      "relay_secret_last_used_timestamp_seconds",
      "When a secret last verified a delivery",
      perWebhook("secret", "secretsLastUsed").map(([labels, millis]) => [labels, millis / 1000]),
    ),
    metric(
      "gauge",
      "relay_certificate_expiry_timestamp_seconds",
      "When a certificate in use expires",
      certificates.map(({ key, notAfter }) => [{ certificate: key }, notAfter / 1000]),
    ),
    metric(
      "gauge",
      "relay_certificate_start_timestamp_seconds",
      "From when on a certificate in use is valid",
      certificates.map(({ key, notBefore }) => [{ certificate: key }, notBefore / 1000]),
    ),
    metric("counter", "relay_events_total", "Deliveries accepted, duplicates included", perWebhook("type", "events")),
    metric(
      "counter",
      "relay_unredacted_fields_total",
      "Client objects' fields that should have been null",
      perWebhook("field", "unredacted", redacted),
    ),
    metric(
      "counter",
      "relay_quarantined_total",
      "Deliveries signed but not routable",
      webhooks.map(([webhook, { quarantined }]) => [{ webhook }, quarantined]),
    ),
    metric("counter", "relay_events_unrouted_total", "Events that no route took", [[{}, counters.unrouted]]),
    metric("gauge", "relay_bytes_in_flight", "Bytes of bodies being read or committed", [[{}, counters.bytesInFlight]]),
    metric("counter", "relay_duplicates_total", "Deliveries that came before", [[{}, journal.counters.duplicates]]),
    metric("counter", "relay_altered_total", "Deliveries whose id came before with other bytes", [
      [{}, journal.counters.altered],
    ]),
    histogram("relay_commit_duration_seconds", "Waits of deliveries for the disk", Counters.commitBuckets, [
      { labels: {}, ...counters.commits },
    ]),
    metric(
      "counter",
      "relay_delivery_attempts_total",
      "Attempts to deliver an event",
      // The quarantine's lane only puts aside, so it attempts nothing.
      sinks.flatMap(({ name, attempts }) =>
        Object.entries({ ...noAttempts, ...attempts }).map(
          ([outcome, value]): Sample => [{ sink: name, outcome }, value],
        ),
      ),
    ),
    metric(
      "counter",
      "relay_sink_bugs_total",
      "How often a sink was closed for a bug in its client library",
      perLane("bugs"),
    ),
    histogram(
      "relay_delivery_duration_seconds",
      "How long attempts took",
      durationBuckets,
      lanes.map(({ name, durations }) => ({ labels: { sink: name }, ...durations })),
    ),
    metric("gauge", "relay_lane_backlog_events", `Events routed to a sink and not settled, ${own}`, perLane("backlog")),
    metric("gauge", "relay_lane_retrying_events", `Events that wait for another attempt, ${own}`, perLane("retrying")),
    metric(
      "gauge",
      "relay_lane_oldest_age_seconds",
      `Age of the oldest event that is not settled, ${own}`,
      lanes.map(({ name, oldestAt }) => [{ sink: name }, oldestAt === 0 ? 0 : Math.max(0, now - oldestAt) / 1000]),
    ),
    metric(
      "gauge",
      "relay_lane_state",
      `1 for the state that a lane is in, ${own}`,
      lanes.flatMap(({ name, condition }) =>
        laneConditions.map((state): Sample => [{ sink: name, state }, state === condition ? 1 : 0]),
      ),
    ),
    metric("gauge", "relay_dead_letters", `Dead letters that stand, ${own}`, perLane("deadLetters")),
    metric(
      "gauge",
      "relay_duplicate_bound_events",
      `The most events that a crash could have sent twice, ${own}`,
      perLane("duplicateBound"),
    ),
    metric("gauge", "relay_journal_bytes", `Bytes that the journal uses, ${own}`, [
      [{}, fleet?.ownedBytes ?? journal.usedBytes],
    ]),
    metric("gauge", "relay_journal_max_bytes", `The journal's largest size, ${alike}`, [[{}, journal.maxBytes]]),
    metric("gauge", "relay_journal_filling_ratio", `How full the journal is, of 1, ${alike}`, [
      [{}, journal.usedBytes / journal.maxBytes],
    ]),
    metric("gauge", "relay_ready", "1 while deliveries can be accepted", [[{}, why === "" ? 1 : 0]]),
    metric("gauge", "relay_journal_red", `What is lost or damaged in the journal and not acknowledged, ${alike}`, [
      [{}, journal.alarm.lines.length],
    ]),
    metric("gauge", "relay_config_last_reload_successful", "1 when the config in force is the newest", [
      [{}, refusal === "" ? 1 : 0],
    ]),
    metric("gauge", "relay_config_last_reload_success_timestamp_seconds", "When the config in force was loaded", [
      [{}, loadedAt / 1000],
    ]),
    ...(fleet === undefined ? [] : ofFleet(fleet)),
    metric("gauge", "relay_build_info", "Always 1", [[{ version }, 1]]),
  ].join("")
})
