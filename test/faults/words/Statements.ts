/**
 * Compares each statement of the relay with the facts. A false statement becomes a sentence. All statements are
 * compared again until none is false, within the time in which a state must be reported.
 */
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import type { Replay } from "../../../src/admin/replay/ReplayReport.ts"
import type { Lane, RelayHistory, Status } from "../../../src/admin/status/Status.ts"
import { root } from "../../lib/programs.ts"
import { bodyOf, sign } from "../relay/Traffic.ts"
import type { Place } from "./Place.ts"
import type { World } from "./World.ts"

export class Statements {
  count = 0
  readonly untrue: Array<string> = []

  readonly world: World

  constructor(world: World) {
    this.world = world
  }

  is(what: string, said: unknown, wanted: unknown): void {
    this.count += 1
    if (!Bun.deepEquals(said, wanted)) {
      this.untrue.push(`${what}: it says ${JSON.stringify(said)}, and it is ${JSON.stringify(wanted)}`)
    }
  }

  within(what: string, said: number, least: number, most: number): void {
    this.count += 1
    if (!(said >= least && said <= most)) {
      this.untrue.push(`${what}: it says ${said}, and it is from ${least} to ${most}`)
    }
  }
}

/** From this many events on, a sink that can't be reached must be reported. */
const telling = 5

/** Returns the states that may be reported for a lane. */
export const conditionsOf = (place: Place): ReadonlyArray<Lane["condition"]> => {
  if (!place.isInConfig) return ["orphaned"]
  if (place.isPaused) return ["paused"]
  if (place.passes) return ["running"]
  const known = place.answered === "denying" ? "misconfigured" : "waiting"
  if (place.owed < telling) return ["running", "waiting", "misconfigured"]
  // A receiver that is away can't record an attempt, so the relay may have made one.
  return known === "misconfigured" && place.mode === "away" ? [known, "waiting"] : [known]
}

/** A lane without a sink stays until an operator drops it. An empty lane need not be reported. */
const isListed = (place: Place): boolean => place.isInConfig || place.owed + place.deadLetters.length > 0

/** Compares the lanes in `status`, `lanes list` and the API. */
export const lanes = (say: Statements, from: string, told: ReadonlyArray<Lane>): void => {
  const { places, quarantined } = say.world
  for (const place of places) {
    const lane = told.find(({ name }) => name === place.name)
    const about = `${from}, ${place.name}`
    if (lane === undefined || !isListed(place)) {
      say.is(`${about} is listed`, lane !== undefined || !isListed(place), true)
      continue
    }
    say.is(`${about}, backlog`, lane.backlog, place.owed)
    say.is(`${about}, dead letters`, lane.deadLetters, place.deadLetters.length)
    say.is(`${about}, condition ${lane.condition}`, conditionsOf(place).includes(lane.condition), true)
    say.within(`${about}, retrying`, lane.retrying, 0, place.owed)
    say.is(`${about}, waits since`, lane.oldestAt > 0, place.owed > 0)
    if (lane.oldestAt > 0) say.within(`${about}, the oldest`, lane.oldestAt, say.world.startedAt, Date.now())
    say.is(
      `${about}, a reason`,
      lane.message !== "",
      lane.condition !== "running" || (lane.message !== "" && place.owed > 0),
    )
  }
  const quarantine = told.find(({ name }) => name === "_quarantine")
  say.is(`${from}, quarantined`, quarantine?.deadLetters ?? 0, quarantined)
  const known = new Set(["_quarantine", ...places.map(({ name }) => name)])
  say.is(
    `${from}, unknown lanes`,
    told.filter(({ name }) => !known.has(name)).map(({ name }) => name),
    [],
  )
}

const refused = (status: Status, webhook: string): number =>
  status.refusals.filter((refusal) => refusal.webhook === webhook).reduce((sum, { count }) => sum + count, 0)

export const status = (say: Statements, told: Status): void => {
  const { world } = say
  const { counted, places } = world
  lanes(say, "status", told.lanes)
  say.is("status, the journal", told.journal.health, "ok")
  say.within("status, entries so far", told.journal.head, world.appended, world.appended + world.moved)
  say.is("status, why no delivery is accepted", told.notReady, "")
  say.is("status, a refused reload", told.config.refusal !== "", world.isRefused)
  say.is("status, received since the start", told.totals.received, counted.accepted)
  say.is("status, refused since the start", told.totals.refused, counted.forged + counted.strays)
  say.is("status, forged", refused(told, "scheduling"), counted.forged)
  say.is("status, to unknown paths", refused(told, ""), counted.strays)
  const [secret] = told.webhooks[0]?.secrets ?? []
  // Soon after a start the journal may not have been searched for earlier deliveries yet.
  const [since, ever] = [counted.accepted, world.accepted.length].map(Math.sign)
  say.within("status, a secret has verified", Math.sign(secret?.lastUsed ?? 0), since ?? 0, ever ?? 0)
  say.is("status, delivered since the start", told.totals.delivered, world.delivered)
  if (!places.some(({ was }) => was.unreachable)) {
    const errors = places.reduce((sum, { refusals }) => sum + refusals, 0)
    say.is("status, failed attempts", told.totals.failed, errors)
  }
  hour(say, "status, last hour", told.hour)
}

const hour = (
  say: Statements,
  from: string,
  told: Pick<Status["hour"], "received" | "refused" | "delivered">,
): void => {
  const { hour, forgotten, delivered } = say.world
  say.within(`${from}, received`, told.received, hour.received - forgotten.received, hour.received)
  say.within(`${from}, refused`, told.refused, hour.refused - forgotten.refused, hour.refused)
  const all = hour.delivered + delivered
  say.within(`${from}, delivered`, told.delivered, all - forgotten.delivered, all)
}

/** The page's graph has finished steps only, so it may report less than the truth. */
export const history = (say: Statements, told: RelayHistory): void => {
  const { hour, delivered } = say.world
  const sum = (counts: ReadonlyArray<number>) => counts.reduce((all, count) => all + count, 0)
  say.within("history, received", sum(told.received), 0, hour.received)
  say.within("history, refused", sum(told.refused), 0, hour.refused)
  say.within("history, delivered", sum(told.delivered), 0, hour.delivered + delivered)
  say.within("history, since", told.since, say.world.startedAt, Date.now())
}

/** The metrics by their series, as Prometheus has them. */
export const parsed = (text: string): ReadonlyMap<string, number> =>
  new Map([...text.matchAll(/^([a-z_]+(?:\{.*\})?) (\S+)$/gm)].map(([, name = "", value]) => [name, Number(value)]))

export const metrics = (say: Statements, told: ReadonlyMap<string, number>): void => {
  const { counted, places, isRebuilt, isRefused, quarantined } = say.world
  const is = (series: string, wanted: number) => say.is(`metric ${series}`, told.get(series), wanted)
  for (const place of places.filter(isListed)) {
    const sink = `{sink="${place.name}"}`
    is(`relay_lane_backlog_events${sink}`, place.owed)
    is(`relay_dead_letters${sink}`, place.deadLetters.length)
    const [condition, other] = conditionsOf(place)
    if (other === undefined) is(`relay_lane_state{sink="${place.name}",state="${condition}"}`, 1)
    if (place.isInConfig && !isRebuilt)
      is(`relay_delivery_attempts_total{sink="${place.name}",outcome="delivered"}`, place.receipts)
  }
  if (quarantined > 0) is(`relay_dead_letters{sink="_quarantine"}`, quarantined)
  is(`relay_webhook_requests_total{webhook="scheduling",code="202"}`, counted.accepted)
  is(`relay_webhook_requests_total{webhook="scheduling",code="401"}`, counted.forged)
  is(`relay_webhook_requests_total{webhook="scheduling",code="500"}`, 0)
  is(`relay_webhook_requests_total{webhook="scheduling",code="503"}`, 0)
  is(`relay_signature_failures_total{webhook="scheduling",reason="mismatch"}`, counted.forged)
  is(`relay_quarantined_total{webhook="scheduling"}`, counted.quarantined)
  is("relay_duplicates_total", counted.duplicates)
  is("relay_events_unrouted_total", 0)
  is("relay_ready", 1)
  is("relay_journal_red", 0)
  is("relay_config_last_reload_successful", isRefused ? 0 : 1)
}

const rules = readFileSync(join(root, "config/monitoring/alerts.rules.yml"), "utf8")
  .split("- alert: ")
  .slice(1)
  .map((rule) => ({
    alert: /^\w+/.exec(rule)?.[0] ?? "",
    states: (/relay_lane_state\{state=~?"([^"]+)"\}/.exec(rule)?.[1] ?? "").split("|"),
  }))
  .filter(({ states: [first] }) => first !== "")

/** The alerts on a lane's state fire for the sinks that are in it, and for no other. */
export const alerts = (say: Statements, told: ReadonlyMap<string, number>): void => {
  for (const { alert, states } of rules) {
    for (const place of say.world.places.filter(isListed)) {
      const conditions = conditionsOf(place)
      const isIn = states.some((state) => told.get(`relay_lane_state{sink="${place.name}",state="${state}"}`) === 1)
      const may = conditions.map((condition) => states.includes(condition))
      say.is(`alert ${alert} of ${place.name} (${isIn})`, may.includes(isIn), true)
    }
  }
}

export const deadLetters = (say: Statements, place: Place, told: ReadonlyArray<{ readonly eventId: string }>): void =>
  say.is(
    `dlq list of ${place.name}`,
    told.map(({ eventId }) => eventId).toSorted(),
    place.deadLetters.map((number) => `evt_${number}`).toSorted(),
  )

export const replays = (say: Statements, told: ReadonlyArray<Replay>): void => {
  say.is(
    "replay list",
    told.map(({ id, state, to, count }) => [id, state, to, count]),
    say.world.replays.map(({ id, sink, count }) => [id, "finished", { sink }, count]),
  )
}

/** No file of the journal has the body or the signature of an erased event. */
export const files = (say: Statements): void => {
  const { erased, subject } = say.world
  if (erased.size === 0) return
  const directory = dirname(subject.journal)
  // A file that is being replaced has the counts of the last hour.
  for (const name of readdirSync(directory).filter((name) => !name.endsWith(".new"))) {
    const bytes = readFileSync(join(directory, name))
    const left = [...erased].filter((number) => {
      const body = bodyOf(number)
      return [body, sign(body)].some((text) => bytes.includes(text.slice(-40)))
    })
    say.is(`erased events in ${name}`, left, [])
  }
}

/** The log must report everything that happened, and nothing else. */
export const log = (say: Statements): void => {
  const { world } = say
  for (const place of world.places) {
    const tells = (words: string) => [...place.names].some((name) => world.log.includes(`sink ${name}${words}`))
    say.is(`log, a dead letter of ${place.name}`, tells(": dead letter"), place.was.refusing)
    say.is(`log, ${place.name} is paused`, tells(" is paused by an operator"), place.was.paused)
    if (!place.was.unreachable) say.is(`log, ${place.name} does not deliver`, tells(" does not deliver"), false)
  }
  say.is("log, a bug", world.log.includes("internal error"), false)
}
