/**
 * The metrics in Prometheus text format. They are rendered for each scrape from the
 * plain counts of ingest and the lanes, because updating a metric would cost more
 * than counting.
 */
import { Clock, Effect } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import type { RelayConfig } from "../config/Config.ts"
import { type LaneStatus, laneConditions } from "../delivery/LaneStatus.ts"
import { Lanes } from "../delivery/Lanes.ts"
import { durationBuckets, latencyBuckets } from "../delivery/lane/InFlight.ts"
import { redacted } from "../event/Envelope.ts"
import { quarantine } from "../event/Event.ts"
import type { EpochMillis } from "../event/Quantities.ts"
import { refusals, signatureRefusals } from "../ingest/Answers.ts"
import * as Counters from "../ingest/Counters.ts"
import { Ingest } from "../ingest/Ingest.ts"
import { SenderSilence } from "../ingest/SenderSilence.ts"
import { Archive, type JournalStatus } from "../journal/Archive.ts"
import type { FleetStatus } from "../journal/FleetStatus.ts"
import type { ReloadStatus } from "../reload/Difference.ts"
import { Reload } from "../reload/Reload.ts"
import { Stderr } from "../runtime/Stderr.ts"
import { reasons } from "../sinks/Sink.ts"
import { notReady } from "./Probes.ts"
import { RelayInfo } from "./RelayInfo.ts"
import { isCollecting, sendsDigests } from "./status/RelayStatus.ts"

/** The text format of Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats/ */

export const contentType = "text/plain; version=0.0.4; charset=utf-8"

type Labels = Readonly<Record<string, string | number>>
type Sample = readonly [labels: Labels, value: number]

const escaped = (value: string | number): string =>
  String(value).replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"')

const labelled = (labels: Labels): string => {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`)
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`
}

const family = (type: "counter" | "gauge" | "histogram", name: string, help: string, lines: ReadonlyArray<string>) =>
  lines.length === 0 ? "" : [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines, ""].join("\n")

/** Formats a metric. A plain number is its only sample, without labels. */
const metric =
  (type: "counter" | "gauge") =>
  (name: string, help: string, samples: number | ReadonlyArray<Sample>): string => {
    const all: ReadonlyArray<Sample> = typeof samples === "number" ? [[{}, samples]] : samples
    const lines = all.map(([labels, value]) => `${name}${labelled(labels)} ${value}`)
    return family(type, name, help, lines)
  }

const counter = metric("counter")
const gauge = metric("gauge")

interface Histogram {
  readonly labels: Labels
  /** A count for each bound, and a count above them. */
  readonly counts: ReadonlyArray<number>
  readonly sum: number
}

/** Formats a histogram. `bounds` are the upper ends of the buckets, in the metric's unit. */
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
  return family("histogram", name, help, lines)
}

/** Each relay of a fleet counts only its own streams, so the sum over all relays is the fleet's count. */
const own = "in the streams that this relay owns"
/** Every relay of a fleet reports the same value. */
const alike = "the same at every relay on one database"

/** The status codes for deliveries that are not accepted. 500 is an internal error. */
const codes = [...new Set([500, ...Object.values(refusals).map(({ answer }) => answer.status)])]

type CountedByKey = "answers" | "signatureFailures" | "secretsLastUsed" | "events" | "unredacted"

const ofWebhooks = (counters: Counters.Counters, configured: RelayConfig["webhooks"]): ReadonlyArray<string> => {
  for (const { name, respond } of configured) {
    const { answers } = Counters.ofWebhook(counters, name)
    answers.set(respond, answers.get(respond) ?? 0)
  }
  const webhooks = [...counters.webhooks]
  /**
   * Makes samples by label. The series of `from` exist from the start, because a counter that appears with its first
   * failure shows no increase.
   */
  const by = (label: string, counted: CountedByKey, from: ReadonlyArray<string | number> = []): ReadonlyArray<Sample> =>
    webhooks.flatMap(([webhook, counters]) => {
      const zeros = webhook === "" ? [] : from.map((key) => [key, 0] as const)
      const counts = new Map<string | number, number>([...zeros, ...counters[counted]])
      return [...counts].map(([key, value]): Sample => [{ webhook, [label]: key }, value])
    })
  return [
    counter(
      "relay_webhook_requests_total",
      "Requests answered, by status; no webhook: none matched",
      by("code", "answers", codes),
    ),
    counter(
      "relay_signature_failures_total",
      "Deliveries refused for their signature",
      by("reason", "signatureFailures", Object.keys(signatureRefusals)),
    ),
    gauge(
      "relay_secret_last_used_timestamp_seconds",
      "When a secret last verified a delivery",
      by("secret", "secretsLastUsed").map(([labels, millis]) => [labels, millis / 1000]),
    ),
    counter("relay_events_total", "Deliveries accepted, duplicates included", by("type", "events")),
    counter(
      "relay_unredacted_fields_total",
      "Client objects' fields that should have been null",
      by("field", "unredacted", redacted),
    ),
    counter(
      "relay_quarantined_total",
      "Deliveries signed but not routable",
      webhooks.map(([webhook, { quarantined }]) => [{ webhook }, quarantined]),
    ),
    counter("relay_events_unrouted_total", "Events that no route matched", counters.unrouted),
    gauge(
      "relay_events_unrouted_last_timestamp_seconds",
      "When an event last came that no route matched; 0 if none has since the start",
      counters.unroutedAt / 1000,
    ),
    gauge("relay_bytes_in_flight", "Bytes of bodies being read or committed", counters.bytesInFlight),
    histogram("relay_commit_duration_seconds", "Waits of deliveries for the disk", Counters.commitBuckets, [
      { labels: {}, ...counters.commits },
    ]),
  ]
}

const ofSenders = (
  counters: Counters.Counters,
  configured: RelayConfig["webhooks"],
  { since }: SenderSilence["Service"],
): ReadonlyArray<string> => [
  gauge(
    "relay_webhook_last_delivery_timestamp_seconds",
    "When a webhook last accepted a delivery",
    configured.flatMap(({ name }): ReadonlyArray<Sample> => {
      const last = Counters.lastDelivery(counters, name)
      return last === 0 ? [] : [[{ webhook: name }, last / 1000]]
    }),
  ),
  gauge(
    "relay_webhook_silent",
    "1 when a webhook had no delivery for silentAfter",
    configured.flatMap(
      ({ name, silentAfter }): ReadonlyArray<Sample> =>
        silentAfter === undefined ? [] : [[{ webhook: name }, since(name) === undefined ? 0 : 1]],
    ),
  ),
]

const ofCertificates = (certificates: RelayConfig["certificates"]): ReadonlyArray<string> => [
  gauge(
    "relay_certificate_expiry_timestamp_seconds",
    "When a certificate in use expires",
    certificates.map(({ key, notAfter }) => [{ certificate: key }, notAfter / 1000]),
  ),
  gauge(
    "relay_certificate_start_timestamp_seconds",
    "From when on a certificate in use is valid",
    certificates.map(({ key, notBefore }) => [{ certificate: key }, notBefore / 1000]),
  ),
]

const noAttempts = Object.fromEntries(["delivered", ...reasons].map((outcome) => [outcome, 0]))

const ofAttempts = (lanes: ReadonlyArray<LaneStatus>): ReadonlyArray<string> => {
  // The quarantine's lane delivers nothing, so its attempts don't count.
  const sinks = lanes.filter(({ name, condition }) => name !== quarantine && condition !== "orphaned")
  return [
    counter(
      "relay_delivery_attempts_total",
      "Attempts to deliver an event",
      sinks.flatMap(({ name, attempts }) =>
        Object.entries({ ...noAttempts, ...attempts }).map(
          ([outcome, value]): Sample => [{ sink: name, outcome }, value],
        ),
      ),
    ),
    histogram(
      "relay_delivery_duration_seconds",
      "How long attempts took",
      durationBuckets,
      sinks.map(({ name, durations: { counts, sum } }) => ({ labels: { sink: name }, counts, sum })),
    ),
    histogram(
      "relay_delivery_latency_seconds",
      "Time from the acceptance of an event to its delivery, without replays from the journal",
      latencyBuckets,
      sinks.map(({ name, latencies: { counts, sum } }) => ({ labels: { sink: name }, counts, sum })),
    ),
  ]
}

type CountedByLane = "backlog" | "deadLetters" | "duplicateBound" | "bugs"

const ofLanes = (
  lanes: ReadonlyArray<LaneStatus>,
  sinks: RelayConfig["sinks"],
  now: EpochMillis,
): ReadonlyArray<string> => {
  const perLane = (counted: CountedByLane): ReadonlyArray<Sample> =>
    lanes.map((lane) => [{ sink: lane.name }, lane[counted]])
  return [
    counter("relay_sink_bugs_total", "How often a sink was closed for a bug in its client library", perLane("bugs")),
    gauge("relay_lane_backlog_events", `Events routed to a sink and not settled, ${own}`, perLane("backlog")),
    gauge(
      "relay_lane_retrying_events",
      `Events that wait for another attempt, ${own}`,
      lanes.map((lane) => [
        { sink: lane.name },
        sendsDigests(sinks, lane.name) && isCollecting(lane) ? 0 : lane.retrying,
      ]),
    ),
    gauge(
      "relay_lane_oldest_age_seconds",
      `Age of the oldest event that is not settled, ${own}`,
      lanes.map(({ name, oldestAt }) => [{ sink: name }, oldestAt === 0 ? 0 : Math.max(0, now - oldestAt) / 1000]),
    ),
    gauge(
      "relay_lane_state",
      `1 for the state that a lane is in, ${own}`,
      lanes.flatMap(({ name, condition }) =>
        laneConditions.map((state): Sample => [{ sink: name, state }, state === condition ? 1 : 0]),
      ),
    ),
    gauge("relay_dead_letters", `Dead letters, ${own}`, perLane("deadLetters")),
    gauge(
      "relay_duplicate_bound_events",
      `The most events that a crash could have sent twice, ${own}`,
      perLane("duplicateBound"),
    ),
  ]
}

const ofJournal = (
  { counters, usedBytes, maxBytes, alarm }: JournalStatus,
  ownedBytes = usedBytes,
): ReadonlyArray<string> => [
  counter("relay_duplicates_total", "Duplicate deliveries", counters.duplicates),
  counter("relay_altered_total", "Deliveries with a known id and other bytes", counters.altered),
  gauge("relay_journal_bytes", `Bytes that the journal uses, ${own}`, ownedBytes),
  gauge("relay_journal_max_bytes", `The journal's largest size, ${alike}`, maxBytes),
  gauge("relay_journal_filling_ratio", `How full the journal is, of 1, ${alike}`, usedBytes / maxBytes),
  gauge(
    "relay_journal_red",
    `What is lost or damaged in the journal and not acknowledged, ${alike}`,
    alarm.lines.length,
  ),
]

const ofConfig = ({ loadedAt, refusal }: ReloadStatus): ReadonlyArray<string> => [
  gauge("relay_config_last_reload_successful", "1 when the active config is the newest", refusal === "" ? 1 : 0),
  gauge("relay_config_last_reload_success_timestamp_seconds", "When the active config was loaded", loadedAt / 1000),
]

const ofFleet = ({ owned, counters, beatAge }: FleetStatus): ReadonlyArray<string> => [
  gauge("relay_streams_owned", "Streams that this relay delivers", owned),
  counter("relay_takeovers_total", "Streams taken over from stalled relays", counters.takeovers),
  counter("relay_fenced_total", "Streams that another relay has taken over from this one", counters.fenced),
  gauge("relay_beat_age_seconds", "Age of the last heartbeat that the database answered", beatAge / 1_000),
]

export const render = Effect.gen(function* () {
  const { version } = yield* RelayInfo
  const { config } = (yield* ActiveConfig).current
  const { counters } = yield* Ingest
  const archive = yield* Archive
  const status = yield* archive.status
  const fleet = archive.fleet && (yield* archive.fleet.status)
  const lanes = yield* (yield* Lanes).status
  const why = yield* notReady
  return [
    ...ofWebhooks(counters, config.webhooks),
    ...ofSenders(counters, config.webhooks, yield* SenderSilence),
    ...ofCertificates(config.certificates),
    ...ofAttempts(lanes),
    ...ofLanes(lanes, config.sinks, yield* Clock.currentTimeMillis),
    ...ofJournal(status, fleet?.ownedBytes),
    ...(fleet === undefined ? [] : ofFleet(fleet)),
    ...ofConfig(yield* (yield* Reload).status),
    counter("relay_log_lines_dropped_total", "Lines of the log that stderr did not take", (yield* Stderr).dropped()),
    gauge("relay_ready", "1 while deliveries can be accepted", why === "" ? 1 : 0),
    gauge("relay_build_info", "Always 1", [[{ version }, 1]]),
  ].join("")
})
