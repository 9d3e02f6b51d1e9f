/**
 * Compares the alerts with the events sent and with the config. No event is lost, and there are at most as many alerts
 * as windows and full groups. After a crash an alert may come once more.
 */
import { type Digest, digest, groupOf, recovers, recoveryOf, type Told } from "./Failures.ts"

const wait = digest.wait * 1_000
/** How long an acknowledged event may take to its lane, in milliseconds. */
const lag = 1_000
/** Failures have their own numbers; recoveries are above. */
const isFailure = (number: number): boolean => number < recoveryOf(0)

interface Verdict {
  readonly lost: number
  /** Events that one crash repeated in digests, at most. */
  readonly repeated: number
  readonly broken: ReadonlyArray<string>
  readonly notes: ReadonlyArray<string>
}

export class Account {
  /** The relay's life, from 1. */
  life = 1
  readonly #sentAt = new Map<number, number>()
  readonly #acknowledgedAt = new Map<number, number>()
  readonly #digests: Array<Digest> = []
  /** Actions that PagerDuty received for a failure, in order, each with its life. */
  readonly #told = new Map<number, Array<{ readonly action: string; readonly life: number }>>()
  readonly #invalid = new Set<string>()

  sent(number: number): void {
    this.#sentAt.set(number, performance.now())
  }

  acknowledged(number: number): void {
    this.#acknowledgedAt.set(number, performance.now())
  }

  digest(read: Omit<Digest, "at" | "life">): void {
    this.#digests.push({ ...read, at: performance.now(), life: this.life })
  }

  alert({ failure, action }: Told): void {
    const told = this.#told.get(failure) ?? []
    told.push({ action, life: this.life })
    this.#told.set(failure, told)
  }

  invalid(service: string, problems: ReadonlyArray<string>): void {
    this.#invalid.add(`${service} got something invalid: ${problems.join(", ")}`)
  }

  /**
   * Judges everything once all is quiet. `bounds` has the most that a crash repeats, by sink, as the relay reports it.
   */
  verdict(bounds: ReadonlyMap<string, number>): Verdict {
    const digests = this.#distinct()
    const alerts = this.#alerts(bounds.get("pagerduty") ?? 0)
    const failures = [...this.#acknowledgedAt.keys()].filter(isFailure)
    const groups = [...new Set(failures.map(groupOf))].map((group) =>
      this.#group(
        digests.filter((digest) => digest.group === group),
        failures.filter((number) => groupOf(number) === group).length,
        group,
      ),
    )
    const strange = digests.filter(({ group }) => !failures.some((number) => groupOf(number) === group)).length
    const repeats = this.#repeats()
    const early = digests.filter((digest) => this.#isEarly(digest)).length
    return {
      lost: groups.reduce((sum, { lost }) => sum + lost, 0) + alerts.lost,
      repeated: Math.max(0, ...repeats.values()),
      broken: [
        ...this.#invalid,
        ...groups.flatMap(({ broken }) => broken),
        ...alerts.broken,
        ...(strange > 0 ? [`${strange} digests are of no group that was sent`] : []),
        ...(early === 0 ? ["no group went before its window ended, and one was large enough"] : []),
      ],
      notes: [
        `${failures.length} failures became ${digests.length} digests, ${early} of them full before their time; ` +
          `${this.#digests.length - digests.length} went once more, at PagerDuty ${alerts.repeated} events`,
      ],
    }
  }

  /** A repeated digest counts once, with its last content. */
  #distinct(): ReadonlyArray<Digest> {
    const last = new Map<number, Digest>()
    for (const one of this.#digests) last.set(one.first, { ...one, at: last.get(one.first)?.at ?? one.at })
    return [...last.values()]
  }

  #isEarly({ first, count, at }: Digest): boolean {
    return count === digest.maxEvents && at < (this.#sentAt.get(first) ?? 0) + wait
  }

  /** Events that were in two digests, by the life that ended in between. */
  #repeats(): ReadonlyMap<number, number> {
    const before = new Map<number, Digest>()
    const repeats = new Map<number, number>()
    for (const one of this.#digests) {
      const twice = before.get(one.first)
      if (twice !== undefined) repeats.set(twice.life, (repeats.get(twice.life) ?? 0) + twice.count)
      before.set(one.first, one)
    }
    return repeats
  }

  #group(digests: ReadonlyArray<Digest>, sent: number, group: string): Pick<Verdict, "lost" | "broken"> {
    const told = digests.reduce((sum, { count }) => sum + count, 0)
    const broken: Array<string> = []
    if (told > sent) broken.push(`${group}: ${told} events are told of, and ${sent} were sent`)
    const large = digests.filter(({ count }) => count > digest.maxEvents).length
    if (large > 0) broken.push(`${group}: ${large} digests hold more than ${digest.maxEvents} events`)
    const hasty = digests.filter(
      ({ first, count, at }) => count < digest.maxEvents && at < (this.#sentAt.get(first) ?? 0) + wait,
    ).length
    if (hasty > 0) broken.push(`${group}: ${hasty} digests went before their windows ended, and were not full`)
    const lives = new Set<string>()
    for (const { first, life } of this.#digests.filter((one) => one.group === group)) {
      if (lives.has(`${life} ${first}`)) broken.push(`${group}: a digest went twice without a crash`)
      lives.add(`${life} ${first}`)
    }
    // Events on disk while a window was open belong to its digest, unless the digest was full.
    const split = digests.filter(({ first, count }, index) => {
      const ends = (this.#sentAt.get(first) ?? 0) + wait - lag
      const next = digests[index + 1]
      return count < digest.maxEvents && next !== undefined && (this.#acknowledgedAt.get(next.first) ?? ends) < ends
    }).length
    if (split > 0) broken.push(`${group}: ${split} windows made more than one digest`)
    const times = digests.map(({ at }) => at)
    const began = Math.min(...digests.map(({ first }) => this.#sentAt.get(first) ?? 0))
    const most = Math.floor(sent / digest.maxEvents) + Math.ceil((Math.max(...times) - began) / wait)
    if (digests.length > most)
      broken.push(`${group}: ${digests.length} digests, and ${most} are as many as there may be`)
    return { lost: Math.max(0, sent - told), broken }
  }

  #alerts(bound: number): Pick<Verdict, "lost" | "repeated" | "broken"> {
    const failures = [...this.#acknowledgedAt.keys()].filter(isFailure)
    const told = (number: number) => this.#told.get(number) ?? []
    const actions = (number: number) => told(number).map(({ action }) => action)
    const overtaken = failures.filter((number) => actions(number)[0] === "resolve").length
    const open = failures.filter((number) => recovers(number) && actions(number).at(-1) !== "resolve").length
    const repeats = new Map<number, number>()
    for (const number of failures) {
      for (const [index, { action }] of told(number).entries()) {
        const before = told(number)
          .slice(0, index)
          .findLast((one) => one.action === action)
        if (before !== undefined) repeats.set(before.life, (repeats.get(before.life) ?? 0) + 1)
      }
    }
    const repeated = Math.max(0, ...repeats.values())
    return {
      lost: failures.filter((number) => !actions(number).includes("trigger")).length,
      repeated,
      broken: [
        ...(overtaken > 0 ? [`${overtaken} recoveries came before what they end`] : []),
        ...(open > 0 ? [`${open} failures are over, and that is not the last that PagerDuty heard`] : []),
        ...(repeated > bound ? [`a crash repeated ${repeated} events at PagerDuty, over the bound of ${bound}`] : []),
      ],
    }
  }
}
