/**
 * Cuts each sink's conversation with its part, at a byte of either direction and in every way that a network has. All
 * sinks run in one relay, each cut at another byte, beside a sink that is left alone.
 *
 * After each round the process lives, the healthy sink has had every event within a second, and each failed sink
 * reports the reason. Once the proxies behave, all events have arrived.
 *
 * The short form draws its bytes: about 50 cuts per sink, in less than two minutes. The long form goes through 100
 * places of each conversation, for each kind and direction. A SIGTERM ends it with its account.
 */
import type { Status } from "../../../src/admin/status/Status.ts"
import { type Direction, directions, type Kind, kinds } from "../../parts/CutProxy.ts"
import { isEnough, type Line, type Options, type Outcome } from "../Line.ts"
import { memory, Subject } from "../relay/Subject.ts"
import { Receiver } from "../relay/Traffic.ts"
import { Draw } from "../simulation/Draw.ts"
import { playPlanted } from "./Planted.ts"
import { startParts, type Target } from "./Targets.ts"

/** How many bytes of a conversation are tried, of each kind and direction. */
const places = { long: 100, normal: 3 }
/** Events that are sent while a cut waits for its byte. */
const batch = 3
/** Connections that a cut breaks. */
const times = 2
/** Milliseconds. */
const healthyWithin = 1_000
/** Seconds that a round waits for its cuts, and for the events that they held up. */
const patience = { cuts: 3, rest: 90 }
/** MiB. */
const growth = 96

export const delivery = { timeout: "1 second", retry: { initial: "100 millis", max: "300 millis" } }

/** Words that say why a conversation failed. */
const causes =
  /clos|reset|refused|reach|broke|ended|answer|time|TLS|certificate|protocol|handshake|ECONN|EPIPE|frame|can't take events|throttles|not HTTP/i

/** Words that a setting is wrong. */
const settings = /correct "|change "|set "|grant it|no name for a topic/

type Lane = Status["lanes"][number]

/** Returns the mistakes in a lane's report of a cut. */
const wrongWords = (
  { name, condition, message, lastFailure }: Lane,
  since: number,
  kind: Kind,
): ReadonlyArray<string> => {
  if (lastFailure === undefined || lastFailure.at < since) return []
  const said = lastFailure.message
  return [
    ...(/\ba bug\b/.test(said) ? [`${name} blames a bug: ${said}`] : []),
    // A cut must not be reported as a wrong setting. Garbage may look like one, and a part or its code then names it.
    ...(causes.test(said) || (kind === "garbage" && settings.test(said))
      ? []
      : [`${name}, ${kind}, ${condition}: names no cause: ${said}`]),
    ...(condition === "misconfigured" && kind !== "garbage"
      ? [`${name}, ${kind}: asks for another config: ${message}`]
      : []),
    ...(condition === "failed" || condition === "blocked" ? [`${name} is ${condition}: ${message}`] : []),
  ]
}

interface Round {
  readonly place: number
  readonly kind: Kind
  readonly direction: Direction
  /** The place in the conversation of each sink, as a share of it. */
  readonly shareOf: (target: Target) => number
}

const roundsOf = ({ long, seed }: Options): ReadonlyArray<Round> => {
  const draw = new Draw(seed, "cuts")
  const count = long ? places.long : places.normal
  return Array.from({ length: count }, (_, place) =>
    kinds.flatMap((kind) =>
      directions.map((direction): Round => {
        const shares = new Map<Target, number>()
        return {
          kind,
          direction,
          place,
          shareOf: (target) => {
            const share = shares.get(target) ?? (long ? place / count : draw.next())
            shares.set(target, share)
            return share
          },
        }
      }),
    ),
  ).flat()
}

/** Lengths of the conversations, by sink. */
type Lengths = ReadonlyMap<Target, Readonly<Record<Direction, number>>>

/** Sends a batch over new connections, and measures the lengths of their conversations. */
const measured = async (subject: Subject, targets: ReadonlyArray<Target>): Promise<Lengths> => {
  for (const { proxy } of targets) proxy.reset()
  await subject.sender.burst(batch)
  if (!(await subject.drained(30))) throw new Error("uncut, not all sinks took what was sent")
  return new Map(targets.map((target) => [target, target.proxy.longest]))
}

class Stage {
  readonly broken = new Set<string>()
  /** Number of times that each sink's conversation was broken. */
  readonly cuts = new Map<Target, number>()
  /** Number of dead letters. A part rejects an event for good if it contains garbage. */
  letters = 0
  /** The slowest arrival at the healthy sink, in milliseconds. */
  slowest = 0
  readonly #subject: Subject
  readonly #targets: ReadonlyArray<Target>
  readonly #first: Lengths
  readonly #again: Lengths

  constructor(subject: Subject, targets: ReadonlyArray<Target>, good: Receiver, first: Lengths, again: Lengths) {
    this.#subject = subject
    this.#targets = targets
    this.#first = first
    this.#again = again
    good.onArrival = ({ number, at }) => {
      this.slowest = Math.max(this.slowest, at - (subject.sender.sentAt.get(number) ?? at))
    }
  }

  /** Returns false if later rounds make no sense, because something never drained. */
  async play({ kind, direction, place, shareOf }: Round): Promise<boolean> {
    const since = Date.now()
    this.slowest = 0
    for (const target of this.#targets) {
      // A client that reconnects may have a shorter conversation: every other cut is within that length.
      const length = (place % 2 === 0 ? this.#first : this.#again).get(target)?.[direction] ?? 0
      target.proxy.arm({ kind, direction, at: Math.floor(shareOf(target) * length), times })
    }
    await this.#subject.sender.burst(batch)
    const what = `${kind} ${direction}`
    if (!(await this.#subject.drained(1, ["good"])))
      this.broken.add(`${what}: the healthy sink waited for more than a second`)
    await this.#watch(since, kind)
    for (const target of this.#targets) {
      this.cuts.set(target, (this.cuts.get(target) ?? 0) + target.proxy.broken)
      target.proxy.behave()
    }
    if (!(await this.#subject.drained(patience.rest))) {
      // The sinks left behind carry on with their backlog, so later rounds would be misjudged.
      const left = [...(await this.#subject.metric("relay_lane_backlog_events"))].flatMap(([sink, events]) =>
        events > 0 ? [sink] : [],
      )
      this.broken.add(`${what}: ${left.join(", ")} did not drain`)
      return false
    }
    if (this.slowest > healthyWithin) this.broken.add(`${what}: the healthy sink waited ${this.slowest.toFixed(0)} ms`)
    return true
  }

  /** Checks the lanes' reports of the cuts, until no events are pending. */
  async #watch(since: number, kind: Kind): Promise<void> {
    for (const end = performance.now() + patience.cuts * 1_000; performance.now() < end; ) {
      const { lanes } = await this.#subject.status()
      for (const lane of lanes) for (const one of wrongWords(lane, since, kind)) this.broken.add(one)
      if (lanes.every(({ backlog }) => backlog === 0)) return
      await Bun.sleep(50)
    }
  }
}

const count = (numbers: ReadonlyArray<number>): ReadonlyMap<number, number> => {
  const found = new Map<number, number>()
  for (const number of numbers) found.set(number, (found.get(number) ?? 0) + 1)
  return found
}

/** Returns the number of missing events over all sinks, and the most that a cut repeated. */
const account = async (
  stage: Stage,
  letters: ReadonlyMap<Target, ReadonlySet<string>>,
  targets: ReadonlyArray<Target>,
  acknowledged: ReadonlySet<number>,
) => {
  let [lost, worst] = [0, 0]
  for (const target of targets) {
    const has = async () => count(await target.arrived())
    let found = await has()
    const isKept = (number: number) => found.has(number) || letters.get(target)?.has(`evt_${number}`) === true
    const missing = () => [...acknowledged].filter((number) => !isKept(number)).length
    for (let tries = 0; missing() > 0 && tries < 20; tries++) {
      await Bun.sleep(250)
      found = await has()
    }
    lost += missing()
    if (missing() > 0) stage.broken.add(`${target.name} lacks ${missing()}`)
    stage.letters += letters.get(target)?.size ?? 0
    if (found.has(-1)) stage.broken.add(`${target.name} has ${found.get(-1)} that are not what was sent`)
    const repeated = found.values().reduce((sum, times) => sum + times - 1, 0)
    worst = Math.max(worst, Math.ceil(repeated / Math.max(1, stage.cuts.get(target) ?? 0)))
  }
  return { lost, worst }
}

const run = async (options: Options): Promise<Outcome> => {
  const parts = await startParts()
  const targets = parts.flatMap((part) => part.targets)
  const good = new Receiver()
  const sinks = Object.fromEntries(targets.map(({ name, config }) => [name, config]))
  const subject = await Subject.make(options, { sinks: { good: { type: "http", url: good.url }, ...sinks }, delivery })
  const relay = await subject.start()
  const first = await measured(subject, targets)
  const stage = new Stage(subject, targets, good, first, await measured(subject, targets))
  const before = memory(relay.pid)
  let over = false
  let ended = 0
  void relay.exited.then(() => {
    if (!over) ended += 1
  })
  let isStopped = false
  process.once("SIGTERM", () => {
    isStopped = true
  })
  let rounds = 0
  for (const round of roundsOf(options)) {
    if (isStopped || isEnough(options, stage.broken.size)) break
    rounds += 1
    if (!(await stage.play(round))) break
    if (ended === 0) continue
    stage.broken.add(`the process ended: ${relay.stderr().split("\n").slice(-3).join(" ")}`)
    break
  }
  const letters = new Map<Target, ReadonlySet<string>>()
  if (ended === 0) {
    for (const target of targets) letters.set(target, new Set(await subject.deadLetters(target.name)))
    const grown = memory(relay.pid) - before
    if (grown > growth) stage.broken.add(`it grew by ${grown.toFixed(0)} MiB`)
    for (const [sink, bugs] of await subject.metric("relay_sink_bugs_total")) {
      if (bugs > 0) {
        const [, cause = ""] = relay.stderr().split(`sink ${sink}: a bug in its client library`)
        stage.broken.add(`${bugs} bugs of the client library of ${sink} got out: ${cause.slice(0, 600)}`)
      }
    }
  }
  if (relay.stdout() !== "") stage.broken.add(`a library printed: ${relay.stdout().slice(0, 200)}`)
  over = true
  await relay.kill("SIGKILL")
  const { lost, worst } = await account(stage, letters, targets, subject.sender.acknowledged)
  const missing = good.missing(subject.sender.acknowledged).length
  const planted = isEnough(options, stage.broken.size) ? [] : await playPlanted(options)
  for (const one of planted) stage.broken.add(one)
  await Promise.all([...parts.map((part) => part.close()), ...targets.map(({ proxy }) => proxy.close()), good.goAway()])
  if (lost + missing + stage.broken.size === 0) subject.remove()
  const total = stage.cuts.values().reduce((sum, cuts) => sum + cuts, 0)
  return {
    rounds,
    acknowledged: subject.sender.acknowledged.size,
    lost: lost + missing,
    duplicates: worst,
    bound: batch,
    broken: [...stage.broken],
    notes: [
      `${targets.length} sinks × ${directions.length} directions × ${kinds.length} kinds: ${total} cuts; processes ended: ${ended}`,
      `dead letters for garbage: ${stage.letters}`,
      [...stage.cuts].map(([{ name }, cuts]) => `${name} ${cuts}`).join(", "),
    ],
  }
}

export const cuts: Line = {
  name: "cuts",
  fault: "conversations with parts are cut at any byte",
  run,
}
