/**
 * The alert rules, evaluated by Prometheus itself (`promtool test rules`). Each fires for its condition once that has
 * lasted long enough, and for nothing else. The series are exported by a relay, and a case changes a few of them.
 */
import { expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { states } from "../../src/admin/status/Health.ts"
import { readPage } from "../lib/docs.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { root } from "../lib/programs.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { exported, metrics } from "./exported.ts"

const rules = "config/monitoring/alerts.rules.yml"

/** The last minute before a change. Samples are a minute apart, and `*` continues them to the end of the case. */
const change = 10
const steady = (value: number) => `${value}+0x*`
/** The minute at which a condition has lasted for six hours. */
const sixHours = change + 361
/** A gauge that has another value from the change on. */
const becomes = (before: number, after: number) => `${before}+0x${change} ${after}+0x*`
/** A counter that rises each minute from the change on. */
const rises = (by: number) => `0+0x${change} ${by}+${by}x*`
/** A counter that rises once. */
const once = becomes(0, 1)
/** A gauge that has another value for six hours, and then its first one again. */
const forSixHours = (before: number, after: number) => `${before}+0x${change} ${after}+0x360 ${before}+0x*`
/** A counter that was at 1 at the first scrape. */
const beforeTheFirstScrape = `_x${change} 1+0x*`

interface Case {
  /** Replaces series of a healthy relay. */
  readonly series: Readonly<Record<string, string>>
  /** The alerts that fire at each minute. No others may fire. */
  readonly at: Readonly<Record<number, ReadonlyArray<string>>>
}

const hours = (count: number) => count * 3_600
const days = (count: number) => hours(24 * count)
const requests = (code: number) => `relay_webhook_requests_total{webhook="scheduling",code="${code}"}`
const failures = (reason: string) => `relay_signature_failures_total{webhook="scheduling",reason="${reason}"}`
const state = (name: string) => `relay_lane_state{sink="lake",state="${name}"}`
const expires = 'relay_certificate_expiry_timestamp_seconds{certificate="tls.certificate"}'
const begins = 'relay_certificate_start_timestamp_seconds{certificate="tls.certificate"}'
const age = 'relay_lane_oldest_age_seconds{sink="lake"}'
const backlog = 'relay_lane_backlog_events{sink="lake"}'
const delivered = (within: string) => `relay_delivery_latency_seconds_bucket{sink="lake",le="${within}"}`
const deliveries = 'relay_delivery_latency_seconds_count{sink="lake"}'
const deadLetters = 'relay_dead_letters{sink="lake"}'
const quarantined = 'relay_dead_letters{sink="_quarantine"}'
const unrouted = "relay_events_unrouted_last_timestamp_seconds"
const loaded = "relay_config_last_reload_success_timestamp_seconds"

/** The alert fires from this minute on. In the minute before, the rule's `for` still holds it back. */
const fires = (minute: number, alert: string, series: Case["series"]): Case => ({
  series,
  at: { [minute - 1]: [], [minute]: [alert], [sixHours]: [alert] },
})

const cases: Readonly<Record<string, Case>> = {
  "a healthy relay": { series: {}, at: { 1: [], 60: [], 300: [] } },

  "deliveries that get 503": fires(16, "RelayRefusesDeliveries", { [requests(503)]: rises(1) }),
  "one delivery that got a 503": { series: { [requests(503)]: once }, at: { 12: [], 16: [], 20: [] } },
  "a relay that is not ready": {
    series: { relay_ready: becomes(1, 0) },
    at: { 10: [], 11: [], 12: ["RelayNotReady"], [sixHours]: ["RelayNotReady"] },
  },
  "an internal error": {
    series: { [requests(500)]: once },
    at: { 10: [], 11: ["RelayBug"], 70: ["RelayBug"], 71: [] },
  },
  "an internal error before the first scrape": {
    series: { [requests(500)]: beforeTheFirstScrape },
    at: { 10: ["RelayBug"], 69: ["RelayBug"], 71: [] },
  },
  "a secret that had expired before the first scrape": {
    series: { [failures("expired")]: beforeTheFirstScrape },
    at: { 10: ["RelayExpiredSecretInUse"], 71: [] },
  },
  "6 of 100 signatures that fail": fires(21, "RelaySignatureFailures", {
    [requests(401)]: rises(6),
    [requests(202)]: rises(94),
    [failures("mismatch")]: rises(6),
  }),
  "5 of 100 signatures that fail": {
    series: { [requests(401)]: rises(5), [requests(202)]: rises(95), [failures("mismatch")]: rises(5) },
    at: { 21: [], 60: [] },
  },
  "an expired secret in use": fires(11, "RelayExpiredSecretInUse", {
    [requests(202)]: rises(99),
    [failures("expired")]: rises(1),
  }),
  "a certificate of six hours, with a third of them left": {
    series: { [begins]: steady(0), [expires]: steady(hours(6)) },
    at: {
      240: [],
      300: [],
      301: ["RelayCertificateExpiring"],
      359: ["RelayCertificateExpiring"],
      360: ["RelayCertificateExpired"],
    },
  },
  "a certificate of a year, with two weeks left after two hours": {
    series: { [begins]: steady(-days(351)), [expires]: steady(days(14) + hours(2)) },
    at: { 120: [], 180: [], 181: ["RelayCertificateExpiring"] },
  },
  "a sink that is misconfigured": fires(16, "RelayLaneNeedsAPerson", { [state("misconfigured")]: becomes(0, 1) }),
  "a sink that is blocked": fires(16, "RelayLaneNeedsAPerson", { [state("blocked")]: becomes(0, 1) }),
  "a lane that failed": fires(11, "RelayLaneFailed", { [state("failed")]: becomes(0, 1) }),
  "a lane that stalls": fires(11, "RelayLaneStalled", { [state("stalled")]: becomes(0, 1) }),
  "a sink that is unavailable": fires(26, "RelayLaneAway", { [state("waiting")]: becomes(0, 1) }),
  "a sink that is paused": fires(71, "RelayLanePaused", { [state("paused")]: becomes(0, 1) }),
  "events of a sink that is not in the config": fires(26, "RelayLaneOrphaned", {
    [state("orphaned")]: becomes(0, 1),
    [backlog]: becomes(0, 3),
  }),
  "no events of a sink that is not in the config": {
    series: { [state("orphaned")]: becomes(0, 1) },
    at: { 26: [], 60: [] },
  },
  "a sink that is a quarter of an hour behind": fires(21, "RelayLaneLags", { [age]: becomes(900, 901) }),
  "events that are delivered ten minutes after they were accepted": {
    series: { [delivered("1800")]: rises(1), [delivered("+Inf")]: rises(1), [deliveries]: rises(1) },
    at: { 10: [], 16: ["RelayDeliveriesLate"], [sixHours]: ["RelayDeliveriesLate"] },
  },
  "events that are delivered at once": {
    series: { [delivered("300")]: rises(1), [delivered("+Inf")]: rises(1), [deliveries]: rises(1) },
    at: { 16: [], [sixHours]: [] },
  },
  "a dead letter for six hours": {
    series: { [deadLetters]: forSixHours(0, 1) },
    at: { 10: [], 11: ["RelayDeadLetters"], 180: ["RelayDeadLetters"], 371: ["RelayDeadLetters"], 372: [] },
  },
  "dead letters from before the first scrape": {
    series: { [deadLetters]: steady(3) },
    at: { 0: ["RelayDeadLetters"], 360: ["RelayDeadLetters"] },
  },
  "some of the dead letters are replayed": {
    series: { [deadLetters]: becomes(3, 2) },
    at: { 11: ["RelayDeadLetters"], 20: ["RelayDeadLetters"] },
  },
  "a delivery in quarantine for six hours": {
    series: { [quarantined]: forSixHours(0, 1) },
    at: { 10: [], 11: ["RelayQuarantine"], 180: ["RelayQuarantine"], 371: ["RelayQuarantine"], 372: [] },
  },
  "a delivery in quarantine from before the first scrape": {
    series: { [quarantined]: steady(1) },
    at: { 0: ["RelayQuarantine"], 360: ["RelayQuarantine"] },
  },
  "an event that no route matches, and a reload six hours later": {
    series: { [unrouted]: becomes(0, 660), [loaded]: `1+0x${change} 1+0x360 22260+0x*` },
    at: { 10: [], 11: ["RelayUnrouted"], 180: ["RelayUnrouted"], 371: ["RelayUnrouted"], 372: [] },
  },
  "an event that no route matched before the first scrape": {
    series: { [unrouted]: steady(2), [loaded]: steady(1) },
    at: { 0: ["RelayUnrouted"], 360: ["RelayUnrouted"] },
  },
  "a name that the sender left": {
    series: { 'relay_unredacted_fields_total{webhook="scheduling",field="first_name"}': once },
    at: { 10: [], 11: ["RelayUnredacted"], 70: ["RelayUnredacted"], 71: [] },
  },
  "a journal that is four fifths full": { series: { relay_journal_filling_ratio: steady(0.8) }, at: { 60: [] } },
  "a journal that fills": fires(16, "RelayJournalFilling", { relay_journal_filling_ratio: becomes(0.8, 0.81) }),
  "a journal that is nearly full": {
    series: { relay_journal_filling_ratio: becomes(0.8, 0.96) },
    at: {
      10: [],
      11: ["RelayJournalNearlyFull"],
      16: ["RelayJournalFilling", "RelayJournalNearlyFull"],
      [sixHours]: ["RelayJournalFilling", "RelayJournalNearlyFull"],
    },
  },
  "a journal that lost events": fires(11, "RelayJournalRed", { relay_journal_red: becomes(0, 1) }),
  "commits of more than half a second, 2 of 100": {
    series: {
      'relay_commit_duration_seconds_bucket{le="0.5"}': rises(98),
      'relay_commit_duration_seconds_bucket{le="1"}': rises(100),
      'relay_commit_duration_seconds_bucket{le="3"}': rises(100),
      'relay_commit_duration_seconds_bucket{le="+Inf"}': rises(100),
    },
    at: { 20: [], 21: ["RelayCommitsSlow"], [sixHours]: ["RelayCommitsSlow"] },
  },
  "commits of half a second": {
    series: {
      'relay_commit_duration_seconds_bucket{le="0.5"}': rises(100),
      'relay_commit_duration_seconds_bucket{le="1"}': rises(100),
      'relay_commit_duration_seconds_bucket{le="3"}': rises(100),
      'relay_commit_duration_seconds_bucket{le="+Inf"}': rises(100),
    },
    at: { 21: [], 60: [] },
  },
  "a config that is refused": fires(16, "RelayReloadFailed", { relay_config_last_reload_successful: becomes(1, 0) }),
}

/** This alert is about all relays together. */
const noRelay: Readonly<Record<string, Case>> = {
  "no relay": fires(13, "RelayDown", { relay_build_info: `1+0x${change} stale` }),
}

/** Two relays of a fleet. */
const silence = 'relay_webhook_silent{webhook="scheduling"}'
const silentAtOne: Readonly<Record<string, Case>> = {
  "a relay that hears of no delivery": { series: { [silence]: becomes(0, 1) }, at: { 11: [], 60: [] } },
  "a relay that gets deliveries": { series: {}, at: { 11: [], 60: [] } },
}
const silentAtAll: Readonly<Record<string, Case>> = {
  "a sender that is silent": fires(11, "RelaySenderSilent", { [silence]: becomes(0, 1) }),
  "another relay of its fleet": { series: { [silence]: becomes(0, 1) }, at: { 11: ["RelaySenderSilent"] } },
}

const selector = ({ name, labels }: (typeof exported)[number]): string =>
  labels.length === 0 ? name : `${name}{${labels.map(([label, value]) => `${label}="${value}"`).join(",")}}`
/** Exported series by selector. `relay_build_info` has no labels here, because no rule reads its version. */
const seriesOf = new Map(exported.map((one) => [one.name === "relay_build_info" ? one.name : selector(one), one]))
/** The series of a healthy relay. Its clock starts with the test's. */
const healthy: Readonly<Record<string, string>> = {
  [expires]: steady(days(90)),
  [begins]: steady(0),
  [failures("expired")]: steady(0),
  'relay_unredacted_fields_total{webhook="scheduling",field="email"}': steady(0),
  [unrouted]: steady(0),
  [loaded]: steady(0),
}

const alerts = [...readPage(rules).matchAll(/- alert: (\w+)\n(?:.|\n)*?severity: (\w+)/g)]
const severities = new Map(alerts.map(([, alert = "", severity = ""]) => [alert, severity]))

/** A relay for each case. All series of `ALERTS` are compared, so an alert that is not named may not fire. */
const seriesOfCase = ([instance, { series, at }]: readonly [string, Case]) => {
  const changed: Readonly<Record<string, string>> = { ...healthy, ...series }
  const last = String(Math.max(...Object.keys(at).map(Number)))
  return [...seriesOf].map(([key, { name, labels, value }]) => ({
    series: selector({ name, labels: [...labels, ["instance", instance], ["job", "relay"]], value }),
    values: (changed[key] ?? steady(value)).replace("*", last),
  }))
}
const expectedOfCase = ([instance, { at }]: readonly [string, Case]) =>
  Object.entries(at).map(([minute, firing]) => ({
    expr: `sum by (alertname, severity) (ALERTS{alertstate="firing", instance=~"${instance}|"})`,
    eval_time: `${minute}m`,
    exp_samples: firing.map((alert) => ({
      labels: `{alertname="${alert}", severity="${severities.get(alert)}"}`,
      value: 1,
    })),
  }))
/** Relays that Prometheus scrapes at the same time. */
const fleet = (cases: ReadonlyArray<readonly [string, Case]>) => ({
  interval: "1m",
  input_series: cases.flatMap(seriesOfCase),
  promql_expr_test: cases.flatMap(expectedOfCase),
})

test("each alert that has a state of `relay status` has its severity", () => {
  const runbooks = [
    ...readPage(rules).matchAll(/- alert: (\w+)\n(?:.|\n)*?runbooks\.md#([a-z-]+)(?:\{\{ \$labels\.state \}\})?/g),
  ]
  const known = runbooks.flatMap(([, alert = "", runbook = ""]) =>
    // The end of one runbook's name is the lane's state. Both possible states have the same level.
    Object.entries(states)
      .filter(([state]) => state === (runbook === "sink-" ? "sink-blocked" : runbook))
      .map(([, level]) => [alert, level] as const),
  )
  expect(known.length).toBeGreaterThan(15)
  expect(known.filter(([alert, level]) => severities.get(alert) !== level)).toEqual([])
})

test("each alert has a case in which it fires, about series that a relay exports", () => {
  const all = Object.values({ ...cases, ...noRelay, ...silentAtOne, ...silentAtAll })
  const firing = new Set(all.flatMap(({ at }) => Object.values(at).flat()))
  expect([...firing].toSorted()).toEqual([...severities.keys()].toSorted())
  const changed = all.flatMap(({ series }) => Object.keys(series))
  expect([...changed, ...Object.keys(healthy)].filter((key) => !seriesOf.has(key))).toEqual([])
})

const reasonToSkip = (): string | undefined => {
  if (Bun.which("promtool") === null) return "it needs promtool (apt-get install prometheus)"
  return process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test runs promtool"
}

suiteUnless(reasonToSkip(), "the alert rules in Prometheus", () => {
  const promtool = (args: ReadonlyArray<string>, input = "") => {
    const { status, stdout, stderr } = spawnSync("promtool", args, { cwd: root, input, encoding: "utf8" })
    return { status, said: stdout + stderr }
  }

  test("fire each for its condition, when it has lasted, and no others", () => {
    const file = join(temporaryDirectory("alerts-"), "alerts.test.yml")
    const tests = [cases, noRelay, silentAtOne, silentAtAll].map((all) => fleet(Object.entries(all)))
    writeFileSync(file, JSON.stringify({ rule_files: [join(root, rules)], evaluation_interval: "1m", tests }))
    expect(promtool(["test", "rules", file])).toEqual({ status: 0, said: expect.stringContaining("SUCCESS") })
  }, 240_000)

  test("are accepted by Prometheus, and so are the relay's metrics", () => {
    expect(promtool(["check", "rules", rules])).toMatchObject({ status: 0 })
    expect(promtool(["check", "metrics"], metrics)).toEqual({ status: 0, said: "" })
  })
})
