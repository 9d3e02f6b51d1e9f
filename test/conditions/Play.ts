/**
 * Plays a condition: a relay with the sink of a service and a healthy sink delivers events, the condition is brought
 * about, more events come, and the service is healthy again.
 *
 * Asserts that nothing is lost, that at most the events in flight are duplicated, that the healthy sink gets all
 * events meanwhile, that status names the cause while the condition holds, and that delivery resumes by itself:
 * after the service is healthy again, the next attempt is due within a back-off interval, and at most two fail.
 */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Options } from "../faults/Line.ts"
import { mounting, namespace } from "../faults/relay/Mounts.ts"
import { eventually, Subject } from "../faults/relay/Subject.ts"
import { reasonToSkip, Shim } from "../faults/relay/shim/Shim.ts"
import { Receiver } from "../faults/relay/Traffic.ts"
import type { Relay } from "../lib/relay.ts"
import type { Scenario } from "./Column.ts"

/** Events that are sent while all is well, and while the condition holds. */
export const batch = 5
const retry = { initial: 100, max: 300 }
/** The delivery settings of the relay, unless a scenario has others. */
export const delivery = {
  timeout: "3 seconds",
  retry: { initial: `${retry.initial} millis`, max: `${retry.max} millis` },
  pauseAfter: 3,
}
/** Seconds that a step may take. It ends when its event has come. */
const patience = 30
/** Seconds until exports of telemetry begin again: they pause for a minute after a failure. */
const exportPause = 90

/** A service that a scenario has started. */
export interface Service {
  /** The sink of the config that sends to it. */
  readonly sink: object
  /** Further keys of the config. */
  readonly config?: object
  readonly env?: Readonly<Record<string, string>>
  /** Brings the condition about. */
  readonly breaks: () => unknown
  /** Makes the service healthy. */
  readonly heals: () => unknown
  /** How many requests it has got. Given if they are more than its events, and then more must come once it is healthy. */
  readonly requests?: () => number
  /** The numbers of the events that it has accepted, each as often as it was accepted. */
  readonly arrived: () => ReadonlyArray<number> | Promise<ReadonlyArray<number>>
  readonly close: () => unknown
}

/** The surroundings of a scenario's service. */
export interface Place {
  /** Removed afterwards. The relay runs in it. */
  readonly directory: string
  /** Makes the name `hostName` lead to these addresses, if the condition has `names`. */
  readonly lead: (...addresses: ReadonlyArray<string>) => void
  /** Sets the relay's clock wrong by this number of milliseconds, if the condition has `skew`. */
  readonly setClock: (by: number) => void
  /** The running relay's id. */
  readonly pid: () => number
  /** Loads the config again in the running relay. */
  readonly reload: () => Promise<unknown>
}

/** A host name that only the relay knows, if the condition has `names`. */
export const hostName = "service.test"
/** Bun remembers an address for 30 seconds, here until the next second. */
const forgetsNames = { BUN_CONFIG_DNS_TIME_TO_LIVE_SECONDS: "0" }
export const forgotten = () => Bun.sleep(1_100)

/** Other bounds than the usual ones, with the reason. */
export interface Bound {
  /** Failed attempts after the service is healthy again: 2. */
  readonly attempts?: number
  /** Milliseconds until the next attempt once the service is healthy: `retry.max`. */
  readonly wait?: number
  /** Copies at the service: the number of events in flight. */
  readonly copies?: number
  readonly because: string
}

export interface Condition {
  /** A sentence that names the condition and the relay's reaction. */
  readonly what: string
  readonly start: (place: Place) => Promise<Service>
  /** The words of status, or of the dead letters; absent if the condition must not hold up delivery. */
  readonly says?: RegExp
  /** A line of the log while the condition holds. */
  readonly logs?: RegExp
  /** The events that the service refuses for their own sake, so they become dead letters. */
  readonly letters?: (number: number) => boolean
  /** The body of an event; see `bodyOf` in Traffic.ts. */
  readonly body?: (number: number) => string
  /** Events before the condition: 5. */
  readonly first?: number
  /** The relay has a host name, `hostName`, whose addresses the scenario chooses. */
  readonly names?: true
  /** A line of shell before the relay, in the same process. */
  readonly shell?: (directory: string) => string
  /** The condition exists before the relay starts. */
  readonly isThereAtStart?: true
  /** The error of the relay's clock, in milliseconds. */
  readonly skew?: number
  /** Delivery settings that differ. */
  readonly delivery?: object
  readonly bound?: Bound
  readonly isQuick?: true
  /** Why it can't run on this machine. */
  readonly lacking?: string | undefined
}

/** A scenario by these steps. */
export const play = (condition: Condition): Scenario => ({
  what: condition.what,
  ...(condition.isQuick && { isQuick: true }),
  lacking:
    condition.lacking ??
    (condition.skew === undefined ? undefined : reasonToSkip()) ??
    (condition.names && namespace("true") === undefined ? "it may not mount here" : undefined),
  run: (options) => new Stage(condition).run(options),
})

class Stage {
  readonly #condition: Condition
  readonly #broken: Array<string> = []
  readonly #good = new Receiver()
  #relay: Relay | undefined

  constructor(condition: Condition) {
    this.#condition = condition
  }

  async run(options: Options): Promise<ReadonlyArray<string>> {
    const sinks = { good: { type: "http", url: this.#good.url } }
    const subject = await Subject.make(options, { sinks, delivery: { ...delivery, ...this.#condition.delivery } })
    const { body, skew } = this.#condition
    if (body !== undefined) for (const end of [subject.sender, this.#good]) end.bodyOf = body
    const shim = skew === undefined ? undefined : new Shim(subject.directory, subject.journal)
    shim?.skew(skew ?? 0)
    try {
      const service = await this.#condition.start({
        directory: subject.directory,
        lead: (...addresses) => writeHosts(subject.directory, addresses),
        setClock: (by) => shim?.skew(by),
        pid: () => this.#relay?.pid ?? 0,
        reload: () => subject.reload(),
      })
      try {
        subject.write("relay.config.json", {
          sinks: { ...sinks, tested: service.sink },
          routes: [{ name: "everything", match: "**", to: ["good", "tested"] }],
          ...service.config,
        })
        await this.#steps(subject, service, { ...service.env, ...shim?.env })
      } finally {
        await service.close()
      }
    } catch (error) {
      this.#broken.push(`it broke: ${error instanceof Error ? error.message : error}`)
    } finally {
      await this.#good.goAway()
      shim?.close()
    }
    if (this.#broken.length === 0) subject.remove()
    return this.#broken
  }

  async #steps(subject: Subject, service: Service, env: Readonly<Record<string, string>>): Promise<void> {
    const { isThereAtStart, says, first = batch, names, shell } = this.#condition
    if (isThereAtStart) await service.breaks()
    const relay = await subject.start({
      env: { ...(names && forgetsNames), ...env },
      ...(names && { after: mountingHosts(subject) }),
      ...(shell !== undefined && { after: shell(subject.directory) }),
    })
    this.#relay = relay
    try {
      if (!isThereAtStart) {
        await subject.sender.burst(first)
        if (!(await subject.drained(patience)))
          return this.#say(`nothing was delivered at first: ${await said(subject)}`)
        await service.breaks()
      }
      const failed = await failedAttempts(subject)
      await subject.sender.burst(batch)
      if (!(await subject.drained(patience, ["good"]))) this.#say("the healthy sink waited")
      if (says === undefined) await this.#goesOn(subject, failed)
      else await this.#listens(subject, says)
      await this.#reads(relay)
      await this.#resumes(subject, service)
      await this.#account(subject, service, relay)
    } finally {
      await relay.kill("SIGKILL")
    }
  }

  #say(broken: string): void {
    this.#broken.push(broken)
  }

  /** The condition must not hold up delivery: each event in flight fails twice at most. */
  async #goesOn(subject: Subject, before: number): Promise<void> {
    await this.#drained(subject, "while the condition held")
    const failed = (await failedAttempts(subject)) - before
    if (failed > 2 * batch) this.#say(`${failed} attempts failed while the condition held`)
  }

  async #drained(subject: Subject, when: string, wait = 0): Promise<void> {
    if (!(await subject.drained(patience + wait / 1_000))) this.#say(`it did not drain ${when}: ${await said(subject)}`)
  }

  /** Waits until the lane has stopped and names the cause, or until the dead letters name it. */
  async #listens(subject: Subject, says: RegExp): Promise<void> {
    const heard = new Set<string>()
    const hears = async () => {
      for (const words of this.#condition.letters === undefined ? await stopped(subject) : await lettersSay(subject)) {
        heard.add(words)
      }
      return [...heard].some((words) => says.test(words))
    }
    if (!(await eventually(hears, patience, 50))) {
      this.#say(`nothing said ${says}, but: ${[...heard].join(" | ") || (await said(subject))}`)
    }
  }

  async #reads(relay: Relay): Promise<void> {
    const { logs } = this.#condition
    if (logs === undefined || (await eventually(() => logs.test(relay.stderr()), patience, 50))) return
    this.#say(`the log has no line ${logs}, but: ${relay.stderr().split("\n").slice(-6).join(" | ")}`)
  }

  async #resumes(subject: Subject, service: Service): Promise<void> {
    const { attempts = 2, wait = retry.max } = this.#condition.bound ?? {}
    await service.heals()
    const failed = await failedAttempts(subject)
    const { now, lanes } = await subject.status()
    const due = Math.max(0, (lanes.find(({ name }) => name === "tested")?.nextAttemptAt ?? 0) - now)
    if (due > wait) this.#say(`healthy again, the next attempt was due in ${due} ms, not within ${wait}`)
    await this.#drained(subject, "once the service was healthy", wait)
    await this.#asksAgain(subject, service)
    const more = (await failedAttempts(subject)) - failed
    const refused = this.#condition.letters === undefined ? 0 : batch
    if (more > attempts + refused) this.#say(`healthy again, ${more} attempts failed, not at most ${attempts}`)
    const lane = (await subject.status()).lanes.find(({ name }) => name === "tested")
    if (lane?.condition !== "running") this.#say(`in the end the lane is ${lane?.condition}: ${lane?.message}`)
  }

  /** Sends events until the healthy service gets a request again. */
  async #asksAgain(subject: Subject, { requests }: Service): Promise<void> {
    if (requests === undefined) return
    const before = requests()
    const asks = () => subject.sender.burst(1).then(() => requests() > before)
    if (!(await eventually(asks, exportPause, 1_000))) this.#say("the healthy service got no request")
    await this.#drained(subject, "after the last events")
  }

  async #account(subject: Subject, service: Service, relay: Relay): Promise<void> {
    const { letters = () => false, bound } = this.#condition
    const { acknowledged } = subject.sender
    if (acknowledged.size !== subject.sender.next)
      this.#say(`${subject.sender.next - acknowledged.size} were not accepted`)
    const dead = new Set(await subject.deadLetters("tested"))
    const wrong = [...acknowledged].filter((number) => dead.has(`evt_${number}`) !== letters(number))
    if (wrong.length > 0)
      this.#say(`dead letters are ${[...dead].join(", ") || "absent"}; wrong of ${wrong.join(", ")}`)
    const due = [...acknowledged].filter((number) => !letters(number))
    let arrived: ReadonlyArray<number> = []
    const hasAll = async () => {
      arrived = await service.arrived()
      return due.every((number) => arrived.includes(number))
    }
    if (!(await eventually(hasAll, 5, 100))) this.#say(`lost: ${due.filter((_) => !arrived.includes(_)).join(", ")}`)
    const copies = arrived.length - new Set(arrived).size
    const allowed = bound?.copies ?? batch
    if (copies > allowed) this.#say(`${copies} copies came, at most ${allowed} may`)
    if (this.#good.altered > 0) this.#say("the healthy sink got altered events")
    if (this.#good.missing(acknowledged).length > 0) this.#say("the healthy sink lacks events")
    const bugs = (await subject.metric("relay_sink_bugs_total")).get("tested") ?? 0
    if (bugs > 0) this.#say(`a library had ${bugs} bugs: ${relay.stderr().slice(-600)}`)
  }
}

const hostsOf = (directory: string): string => join(directory, "hosts")

const writeHosts = (directory: string, addresses: ReadonlyArray<string>): void =>
  writeFileSync(hostsOf(directory), ["127.0.0.1 localhost", ...addresses.map((_) => `${_} ${hostName}`), ""].join("\n"))

/** A line of shell that gives the relay its own table of host names. */
const mountingHosts = ({ directory }: Subject): string => {
  const mount = `mount --bind '${hostsOf(directory)}' /etc/hosts`
  return mounting(namespace("true") ?? [], mount)
}

/** The number of failed attempts of the sink. */
const failedAttempts = async (subject: Subject): Promise<number> => {
  const found = (await subject.ask("/metrics")).matchAll(/^relay_delivery_attempts_total\{([^}]*)\} (\S+)$/gm)
  return [...found].reduce(
    (sum, [, labels = "", count]) =>
      labels.includes('sink="tested"') && !labels.includes('"delivered"') ? sum + Number(count) : sum,
    0,
  )
}

/** The words of status once the lane has stopped. */
const stopped = async (subject: Subject): Promise<ReadonlyArray<string>> =>
  (await subject.status()).lanes
    .filter(({ name, condition }) => name === "tested" && condition !== "running")
    .map(({ condition, message }) => `${condition}: ${message}`)

const lettersSay = async (subject: Subject): Promise<ReadonlyArray<string>> => {
  const letters = JSON.parse(await subject.ask("/api/v1/dead-letters?limit=100&sink=tested")) as ReadonlyArray<{
    readonly attempts: ReadonlyArray<{ readonly message: string }>
  }>
  return letters.flatMap(({ attempts }) => attempts.slice(-1).map(({ message }) => message))
}

/** All that status says of the sink. */
const said = async (subject: Subject): Promise<string> => {
  const lane = (await subject.status()).lanes.find(({ name }) => name === "tested")
  return `${lane?.condition}: ${lane?.message || lane?.lastFailure?.message}`
}
