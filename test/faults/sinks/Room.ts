/**
 * Pending events take only their own space. A sink is unavailable while many times the journal's limit is written to
 * another sink. A third sink was removed, and ten thousand events of a fourth have failed two hundred times each. No
 * sender gets a 503, the journal stays within the size of undelivered events, and the senders do not notice, judged by
 * the best window as in `Away.ts`.
 */
import { DatabaseSync } from "node:sqlite"
import { envelope } from "../../lib/kit.ts"
import type { Line, Outcome } from "../Line.ts"
import { eventually, Subject } from "../relay/Subject.ts"
import { Receiver } from "../relay/Traffic.ts"
import { p99 } from "./Trial.ts"

/** How many times `maxSize` is written while a sink is away; events that wait for a retry; windows for each p99. */
const sizes = {
  long: { times: 50, waiting: 10_000, windows: 12 },
  normal: { times: 6, waiting: 2_000, windows: 3 },
}
const maxSize = 16 * 1024 * 1024
const bodyBytes = 8 * 1024
/** One event in this many goes to the unavailable sink, or always fails. */
const few = 200
const rate = 200
const window = 3
/** Limits as in `Away.ts`: share, and milliseconds of noise. */
const limits = { share: 1.2, noise: 10 }
const attempts = 200

const bodyOf = (number: number, isOfFew = number % few === 7, bytes = bodyBytes): string =>
  envelope(
    `evt_${number}`,
    {
      type: isOfFew ? "client.created" : "appointment.created",
      object: { id: `apt_${number}`, note: `${number} `.padEnd(bytes, ".") },
    },
    { account_id: `acct_${number % 50}` },
  )

const routesTo = (...names: ReadonlyArray<string>) => [
  { name: "all", match: "**", to: ["up"] },
  { name: "few", match: "client.created", to: names },
]

const windowsOf = async (subject: Subject, count: number): Promise<number> => {
  const { sender } = subject
  const found: Array<number> = []
  for (let turn = 0; turn < count; turn++) {
    const took: Array<number> = []
    await sender.paced(rate, window, async () => {
      const began = performance.now()
      await sender.send()
      took.push(performance.now() - began)
    })
    found.push(p99(took))
  }
  return Math.min(...found)
}

const slower = (what: string, before: number, now: number): ReadonlyArray<string> =>
  now > before * limits.share + limits.noise
    ? [`the senders' p99 went from ${before.toFixed(1)} to ${now.toFixed(1)} ms ${what}`]
    : []

const refusals = ({ sender }: Subject): ReadonlyArray<string> =>
  [...sender.refused].map(([status, count]) => `senders were answered ${status} ${count} times`)

export const roomLine: Line = {
  name: "room",
  fault: "a sink is away while the journal is written many times over",
  run: async (options): Promise<Outcome> => {
    const { times, windows } = options.long ? sizes.long : sizes.normal
    const [up, away, removed] = [new Receiver(), new Receiver(), new Receiver()]
    const journal = { maxSize: `${maxSize / 1024 / 1024} MiB`, retention: "1 second" }
    const sinks = { up: { type: "http", url: up.url }, away: { type: "http", url: away.url } }
    const subject = await Subject.make(options, { sinks, journal })
    const all = { ...sinks, removed: { type: "http", url: removed.url } }
    subject.write("relay.config.json", { sinks: all, routes: routesTo("away", "removed") })
    const { sender } = subject
    for (const end of [sender, up, away, removed]) end.bodyOf = bodyOf
    const relay = await subject.start()
    const broken: Array<string> = []
    // Not faster than the other sink accepts events, because its pending events count as undelivered too.
    const fill = async (times: number) => {
      for (let written = 0; written < times * maxSize; written += maxSize / 4) {
        await sender.burst(maxSize / 4 / bodyBytes)
        await subject.drained(30, ["up"])
      }
    }
    await fill(1)
    const there = await windowsOf(subject, windows)
    await away.goAway()
    // It has nothing pending when it is removed, and its cursor stays.
    await subject.drained(30, ["up", "removed"])
    subject.write("relay.config.json", { routes: routesTo("away") })
    const [status] = await subject.reload()
    if (status !== 200) broken.push(`the reload was answered ${status}`)
    let highest = 0
    const looking = setInterval(() => {
      void subject.status().then(
        ({ journal }) => {
          highest = Math.max(highest, journal.usedBytes)
        },
        () => {},
      )
    }, 250)
    await fill(times)
    const gone = await windowsOf(subject, windows)
    clearInterval(looking)
    const backlog = (await subject.metric("relay_lane_backlog_events")).get("away") ?? 0
    // Between two checks, which come late on a busy machine, an append frees its own space once the journal is full.
    const allowed = maxSize + backlog * bodyBytes * 1.5
    if (highest > allowed) broken.push(`the journal held ${highest} bytes, ${Math.round(allowed)} at most were due`)
    if (backlog === 0) broken.push("nothing waited for the sink that is away: the line proves nothing")
    broken.push(...refusals(subject), ...slower("with a sink away", there, gone))
    away.comeBack()
    if (!(await subject.drained(120))) broken.push("what was kept had not drained after two minutes")
    if (up.altered + away.altered > 0) broken.push(`${up.altered + away.altered} deliveries were altered`)
    const owed = [...sender.acknowledged].filter((number) => number % few === 7)
    const lost = up.missing(sender.acknowledged).length + owed.filter((n) => !away.times.has(n)).length
    await relay.kill("SIGKILL")
    for (const receiver of [up, away, removed]) await receiver.goAway()
    if (lost + broken.length === 0) subject.remove()
    const mebibytes = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(0)} MiB`
    const notes = [
      `${mebibytes(sender.acknowledged.size * bodyBytes)} written, ${mebibytes(highest)} held at most of ${mebibytes(maxSize)}, ${backlog} owed`,
      `the senders' p99: best window ${there.toFixed(1)} ms before, ${gone.toFixed(1)} ms with a sink away`,
    ]
    return { rounds: times, acknowledged: sender.acknowledged.size, lost, duplicates: 0, broken, notes }
  },
}

/** Gives each event that waits for a retry many attempts, as an older relay would have stored them. */
const age = (path: string): number => {
  const db = new DatabaseSync(path)
  try {
    const attempt = { at: Date.now(), reason: "DeliveryFailed", message: `the sink answered 500 ${"x".repeat(120)}` }
    const text = JSON.stringify(Array.from({ length: attempts }, () => attempt))
    return Number(db.prepare("UPDATE retry SET tried = ?, attempts = ?").run(attempts, text).changes)
  } finally {
    db.close()
  }
}

/** Reads the status and the metrics ten times a second, more often than any real client. */
const looking = (subject: Subject): (() => void) => {
  const timer = setInterval(() => {
    void subject.status().catch(() => {})
    void subject.ask("/metrics").catch(() => {})
  }, 100)
  return () => clearInterval(timer)
}

export const waitingLine: Line = {
  name: "waiting",
  fault: "events that have failed two hundred times wait for a retry",
  run: async (options): Promise<Outcome> => {
    const { waiting, windows } = options.long ? sizes.long : sizes.normal
    const [up, picky] = [new Receiver(), new Receiver()]
    // Every second request succeeds. If all failed, the relay would wait for the sink and charge no event.
    picky.answer = () => (picky.requests % 2 === 0 ? new Response(null, { status: 500 }) : undefined)
    // Enough events may wait for a retry, and none of them pauses the lane.
    const delivery = { retry: { initial: "24 hours", max: "24 hours" }, maxRetrying: waiting * 2, pauseAfter: 10_000 }
    const sinks = {
      up: { type: "http", url: up.url },
      picky: { type: "http", url: picky.url, concurrency: 1, delivery },
    }
    const subject = await Subject.make(options, { sinks })
    subject.write("relay.config.json", { routes: routesTo("picky") })
    const { sender } = subject
    for (const end of [sender, up, picky]) end.bodyOf = (number) => bodyOf(number, number < waiting * 2, 200)
    const broken: Array<string> = []

    const measured = async (): Promise<readonly [p99: number, started: number]> => {
      const began = performance.now()
      const relay = await subject.start()
      const started = performance.now() - began
      await sender.burst(2_000)
      await subject.drained(30, ["up"])
      const stop = looking(subject)
      const best = await windowsOf(subject, windows)
      stop()
      await relay.kill("SIGTERM")
      return [best, started]
    }
    sender.next = waiting * 2
    const [before, startedBefore] = await measured()
    const filling = await subject.start()
    sender.next = 0
    await sender.burst(waiting * 2)
    const waits = async () => ((await subject.metric("relay_lane_retrying_events")).get("picky") ?? 0) > waiting * 0.9
    await eventually(waits, 60)
    await subject.drained(60, ["up"])
    await filling.kill("SIGTERM")
    const aged = age(subject.journal)
    if (aged < waiting * 0.9) broken.push(`only ${aged} wait for a retry: the line proves nothing`)
    sender.next = 1_000_000
    const [now, started] = await measured()
    broken.push(...refusals(subject), ...slower("with events that wait", before, now))
    if (started > startedBefore * 3 + 1_000) broken.push(`the start took ${started.toFixed(0)} ms`)
    for (const receiver of [up, picky]) await receiver.goAway()
    const lost = up.missing(sender.acknowledged).length
    if (lost + broken.length === 0) subject.remove()
    const notes = [
      `${aged} wait; the senders' p99: best window ${before.toFixed(1)} ms before, ${now.toFixed(1)} ms with them`,
      `started in ${startedBefore.toFixed(0)} ms before, ${started.toFixed(0)} ms with them`,
    ]
    return { rounds: 1, acknowledged: sender.acknowledged.size, lost, duplicates: 0, broken, notes }
  },
}
