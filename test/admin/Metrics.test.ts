import { describe, expect } from "bun:test"
import { Duration, Effect } from "effect"
import type { LaneConfig } from "../../src/config/Config.ts"
import { add, observeCommit, ofWebhook } from "../../src/ingest/Counters.ts"
import { webhook } from "../ingest/fixture.ts"
import { it } from "../lib/effect.ts"
import { lane, config as plainConfig, start, text } from "./fixture.ts"

const scrape = Effect.fnUntraced(function* (setup: Parameters<typeof start>[0]) {
  const { ask } = yield* start(setup)
  const response = yield* ask("/metrics")
  return { type: response.headers.get("content-type"), body: yield* text(response) }
})

const names = [
  "relay_webhook_requests_total",
  "relay_signature_failures_total",
  "relay_secret_last_used_timestamp_seconds",
  "relay_webhook_last_delivery_timestamp_seconds",
  "relay_webhook_silent",
  "relay_certificate_expiry_timestamp_seconds",
  "relay_certificate_start_timestamp_seconds",
  "relay_events_total",
  "relay_events_unrouted_total",
  "relay_events_unrouted_last_timestamp_seconds",
  "relay_duplicates_total",
  "relay_commit_duration_seconds",
  "relay_delivery_attempts_total",
  "relay_delivery_duration_seconds",
  "relay_delivery_latency_seconds",
  "relay_sink_bugs_total",
  "relay_lane_backlog_events",
  "relay_lane_oldest_age_seconds",
  "relay_lane_state",
  "relay_dead_letters",
  "relay_duplicate_bound_events",
  "relay_journal_bytes",
  "relay_journal_red",
  "relay_journal_filling_ratio",
  "relay_ready",
  "relay_config_last_reload_successful",
  "relay_build_info",
  "relay_unredacted_fields_total",
  "relay_quarantined_total",
  "relay_bytes_in_flight",
  "relay_altered_total",
  "relay_lane_retrying_events",
  "relay_journal_max_bytes",
  "relay_config_last_reload_success_timestamp_seconds",
  "relay_streams_owned",
  "relay_takeovers_total",
  "relay_fenced_total",
  "relay_beat_age_seconds",
  "relay_log_lines_dropped_total",
]

/** Valid from the second 1 to the second 2. */
const certificate = { key: "tls.certificate", subject: "a", notBefore: 1_000, notAfter: 2_000, fingerprint: "AA" }

const busy = {
  fleet: {
    members: [],
    streams: [],
    counters: { takeovers: 3, fenced: 1 },
    owned: 2,
    ownedBytes: 500,
    beatAge: 1_500,
  },
  config: {
    certificates: [certificate],
    webhooks: [webhook({ name: 'odd "name"\n', silentAfter: { duration: Duration.hours(2) } })],
  },
  silent: { 'odd "name"\n': 1_500 },
  lanes: [
    lane("lake", {
      backlog: 7,
      duplicateBound: 42,
      attempts: { delivered: 10, DeliveryFailed: 1 },
      durations: { counts: [3, 0, 0, 0, 0, 0, 0, 0, 1], sum: 31.5 },
      latencies: { counts: [0, 9, 0, 0, 0, 1], sum: 301 },
    }),
  ],
  counted: (counters: Parameters<typeof ofWebhook>[0]) => {
    const webhook = ofWebhook(counters, 'odd "name"\n')
    add(webhook.answers, 202)
    add(webhook.answers, 202)
    add(webhook.signatureFailures, "lowercase")
    add(webhook.events, "client.created")
    add(webhook.unredacted, "email")
    webhook.secretsLastUsed.set("2026-11", 1_500)
    observeCommit(counters.commits, 0.0015)
    observeCommit(counters.commits, 60)
  },
}

describe("/metrics", () => {
  it.live("has every name that users were promised", function* () {
    const { type, body } = yield* scrape(busy)
    expect(type).toBe("text/plain; version=0.0.4; charset=utf-8")
    for (const name of names) expect(body).toContain(`# TYPE ${name} `)
  })

  it.live("is the text format: each line a comment or a sample, each family once", function* () {
    const { body } = yield* scrape(busy)
    expect(body.endsWith("\n")).toBe(true)
    const families: Array<string> = []
    for (const line of body.trimEnd().split("\n")) {
      const family = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line)?.[1]
      if (family !== undefined) families.push(family)
      expect(line).toMatch(
        /^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z_]+="([^"\\]|\\.)*"(,[a-z_]+="([^"\\]|\\.)*")*\})? -?[0-9.e+]+)$/,
      )
    }
    expect(new Set(families).size).toBe(families.length)
  })

  it.live("doesn't count a digest's events as retrying before an attempt has failed", function* () {
    const [sink] = plainConfig().sinks
    if (sink === undefined) throw new Error("there is no sink")
    const sinks: ReadonlyArray<LaneConfig> = [
      sink,
      { ...sink, name: "chat", alert: { sends: "digest", resolves: false, wait: Duration.seconds(30), maxEvents: 9 } },
    ]
    const failed = (at: number) => ({ lastFailure: { at, message: "answered 500" } })
    for (const [more, counted] of [
      [{}, 0],
      [{ condition: "paused" as const, message: "by an operator" }, 0],
      [failed(1_000), 0],
      [failed(3_000), 6],
      [{ condition: "waiting" as const, message: "away" }, 6],
    ] as const) {
      const at = { retrying: 6, backlog: 6, oldestAt: 2_000, ...more }
      const { body } = yield* scrape({ config: { sinks }, lanes: [lane("lake", at), lane("chat", at)] })
      expect(body).toContain('relay_lane_retrying_events{sink="lake"} 6\n')
      expect(body).toContain(`relay_lane_retrying_events{sink="chat"} ${counted}\n`)
    }
  })

  it.live("counts under escaped labels", function* () {
    const { body } = yield* scrape(busy)
    const odd = 'webhook="odd \\"name\\"\\n"'
    expect(body).toContain(`relay_webhook_requests_total{${odd},code="202"} 2\n`)
    expect(body).toContain(`relay_signature_failures_total{${odd},reason="lowercase"} 1\n`)
    expect(body).toContain(`relay_secret_last_used_timestamp_seconds{${odd},secret="2026-11"} 1.5\n`)
    expect(body).toContain(`relay_webhook_last_delivery_timestamp_seconds{${odd}} 1.5\n`)
    expect(body).toContain(`relay_webhook_silent{${odd}} 1\n`)
    expect(body).toContain('relay_certificate_expiry_timestamp_seconds{certificate="tls.certificate"} 2\n')
    expect(body).toContain('relay_certificate_start_timestamp_seconds{certificate="tls.certificate"} 1\n')
    expect(body).toContain('relay_delivery_attempts_total{sink="lake",outcome="delivered"} 10\n')
    expect(body).toContain('relay_lane_backlog_events{sink="lake"} 7\n')
    expect(body).toContain('relay_duplicate_bound_events{sink="lake"} 42\n')
    expect(body).toContain('relay_lane_state{sink="lake",state="running"} 1\n')
    expect(body).toContain('relay_lane_state{sink="lake",state="blocked"} 0\n')
    expect(body).toContain("relay_streams_owned 2\n")
    expect(body).toContain("relay_takeovers_total 3\n")
    expect(body).toContain("relay_beat_age_seconds 1.5\n")
    // Counts only the relay's own streams, so that the sum over all relays is the whole journal.
    expect(body).toContain("relay_journal_bytes 500\n")
    expect(body).toContain("relay_ready 1\n")
  })

  it.live("begins each counter at 0, so that the first failure is an increase", function* () {
    const { body } = yield* scrape({ lanes: [lane("lake")], config: { webhooks: [webhook()] } })
    for (const series of [
      'relay_webhook_requests_total{webhook="scheduling",code="202"}',
      'relay_webhook_requests_total{webhook="scheduling",code="500"}',
      'relay_webhook_requests_total{webhook="scheduling",code="503"}',
      'relay_signature_failures_total{webhook="scheduling",reason="expired"}',
      'relay_unredacted_fields_total{webhook="scheduling",field="email"}',
      'relay_quarantined_total{webhook="scheduling"}',
      'relay_delivery_attempts_total{sink="lake",outcome="DeliveryRejected"}',
    ]) {
      expect(body).toContain(`${series} 0\n`)
    }
  })

  it.live("has no histograms and no attempts of a sink that the config no longer has", function* () {
    const { body } = yield* scrape({
      lanes: [lane("lake"), lane("old", { type: "", condition: "orphaned", backlog: 3 })],
    })
    const series = body.split("\n").filter((line) => line.includes('sink="old"'))
    expect(series.filter((line) => /^relay_delivery_/.test(line))).toEqual([])
    expect(series).toContain('relay_lane_state{sink="old",state="orphaned"} 1')
    expect(body).toContain('relay_delivery_latency_seconds_count{sink="lake"}')
  })

  it.live("has histograms whose buckets add up to their count", function* () {
    const { body } = yield* scrape(busy)
    expect(body).toContain('relay_commit_duration_seconds_bucket{le="0.001"} 0\n')
    expect(body).toContain('relay_commit_duration_seconds_bucket{le="0.002"} 1\n')
    expect(body).toContain('relay_commit_duration_seconds_bucket{le="+Inf"} 2\n')
    expect(body).toContain("relay_commit_duration_seconds_count 2\n")
    expect(body).toContain('relay_delivery_duration_seconds_bucket{sink="lake",le="+Inf"} 4\n')
    expect(body).toContain('relay_delivery_duration_seconds_sum{sink="lake"} 31.5\n')
    expect(body).toContain('relay_delivery_latency_seconds_bucket{sink="lake",le="60"} 9\n')
    expect(body).toContain('relay_delivery_latency_seconds_bucket{sink="lake",le="300"} 10\n')
  })
})
