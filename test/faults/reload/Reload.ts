/**
 * Loads another config three times a second under signed load. One in four is wrong, and each correct config has
 * another certificate for the listener.
 *
 * Each delivery must have followed a config that was active while it was in progress: it went to all of its sinks, to
 * no other, once. Meanwhile the sinks come and go, change their names, and answer late or not at all.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Certificate, lacking, makeAuthority } from "../../lib/authority.ts"
import { seeded } from "../../lib/seeded.ts"
import { isEnough, type Line } from "../Line.ts"
import { Subject, skipped } from "../relay/Subject.ts"
import { Receiver } from "../relay/Traffic.ts"
import { Plan, type Version } from "./Plan.ts"

const perSecond = 150
const every = 300

/** From when until when a version may have been in force, by `performance.now()`. */
interface Reign {
  readonly version: Version
  readonly from: number
  until: number
}

interface Delivery {
  readonly number: number
  readonly from: number
  readonly until: number
}

const filesOf = ({ certificate, key }: Certificate) => ({ certificate, key })

export const reload: Line = {
  name: "reload",
  fault: "another config again and again, under load",
  run: async (options) => {
    if (lacking !== undefined) return skipped(lacking)
    const directory = mkdtempSync(join(tmpdir(), "relay-reloads-"))
    const { ca, issue } = makeAuthority(directory)
    const certificates = ["one", "other"].map((name) => issue(name, "IP:127.0.0.1"))
    const random = seeded(options.seed)
    const rounds = options.long ? 200 : 30
    const receivers = Array.from({ length: 4 }, () => new Receiver())
    const [, late, flaky, away] = receivers
    if (late !== undefined) late.answer = () => Bun.sleep(random() * 80).then(() => new Response(null, { status: 204 }))
    if (flaky !== undefined) {
      flaky.answer = () => (random() < 0.2 ? new Response(null, { status: 500 }) : undefined)
    }
    const plan = new Plan(
      receivers.map(({ url }) => url),
      certificates.map(filesOf),
      filesOf(issue("expired", "IP:127.0.0.1", -1)),
      random,
    )
    const subject = await Subject.make(options, {
      sinks: {},
      tls: { ca: readFileSync(ca, "utf8"), files: {} },
    })
    const { sender } = subject
    const first = plan.next()
    subject.write("relay.config.json", first.changes)
    const relay = await subject.start()
    const broken: Array<string> = []
    const reigns: Array<Reign> = [{ version: first, from: performance.now(), until: Number.POSITIVE_INFINITY }]
    const deliveries: Array<Delivery> = []
    const took: Array<number> = []
    let over = false

    const load = async (): Promise<void> => {
      const under = new Set<Promise<void>>()
      const began = performance.now()
      for (let sent = 0; !over; ) {
        for (; sent < ((performance.now() - began) / 1_000) * perSecond; sent++) {
          const from = performance.now()
          const number = sender.next++
          const one = sender.send(number).then((status) => {
            if (status === 202) deliveries.push({ number, from, until: performance.now() })
            else broken.push(`a delivery was answered ${status ?? "not at all"}`)
            under.delete(one)
          })
          under.add(one)
        }
        await Bun.sleep(5)
      }
      await Promise.all(under)
    }

    /** Loads a config, and checks that the result is the expected one. */
    const change = async (version: Version, wrong: object | undefined): Promise<void> => {
      subject.write("relay.config.json", wrong ?? version.changes)
      const from = performance.now()
      const [status, text] = await subject.reload()
      took.push(performance.now() - from)
      const isRefused = status === 422 || status === 409
      if (isRefused !== (wrong !== undefined))
        broken.push(`a ${wrong ? "wrong" : "right"} config was answered ${status}: ${text}`)
      if (wrong === undefined) {
        const last = reigns.at(-1)
        if (last !== undefined) last.until = performance.now()
        reigns.push({ version, from, until: Number.POSITIVE_INFINITY })
      }
      const { lanes, config } = await subject.status()
      const expected = reigns.at(-1)?.version.sinks ?? []
      const there = lanes.filter(({ name, condition }) => condition !== "orphaned" && name !== "_quarantine")
      if (
        there
          .map(({ name }) => name)
          .toSorted()
          .join() !== expected.toSorted().join()
      ) {
        broken.push(`the sinks in force are ${there.map(({ name }) => name)}, not ${expected}`)
      }
      if ((config.refusal !== "") !== (wrong !== undefined))
        broken.push(`status says of the reload: "${config.refusal}"`)
    }

    const loading = load()
    const began = performance.now()
    for (let round = 0; round < rounds && !isEnough(options, broken.length); round++) {
      await Bun.sleep(Math.max(0, began + round * every - performance.now()))
      if (round % 10 === 3) await away?.goAway()
      if (round % 10 === 7) away?.comeBack()
      const isWrong = round % 4 === 3
      const current = reigns.at(-1)?.version ?? first
      await change(isWrong ? current : plan.next(), isWrong ? plan.spoil(current) : undefined)
    }
    const seconds = (performance.now() - began) / 1_000
    over = true
    await loading
    away?.comeBack()
    if (flaky !== undefined) flaky.answer = () => undefined
    await change(plan.next(true), undefined)
    if (!(await subject.drained())) broken.push("the backlog did not drain within a minute")
    await relay.kill()

    const got = (number: number) => new Set(receivers.keys().filter((index) => receivers[index]?.times.has(number)))
    let lost = 0
    let astray = 0
    for (const { number, from, until } of deliveries) {
      const at = got(number)
      const may = reigns.filter((reign) => reign.from <= until && from <= reign.until).map(({ version }) => version.to)
      if (may.some((to) => to.size === at.size && to.isSubsetOf(at))) continue
      if (may.some((to) => to.isSubsetOf(at))) astray += 1
      else lost += 1
    }
    if (astray > 0) broken.push(`${astray} deliveries went to sinks that no config in force had named`)
    let duplicates = 0
    for (const { times, altered } of receivers) {
      for (const count of times.values()) duplicates += count - 1
      if (altered > 0) broken.push(`${altered} deliveries were altered`)
    }
    await Promise.all(receivers.map((receiver) => receiver.goAway()))
    if (lost + broken.length === 0) subject.remove()
    rmSync(directory, { recursive: true })
    const sorted = took.toSorted((a, b) => a - b)
    return {
      rounds,
      acknowledged: deliveries.length,
      lost,
      duplicates,
      bound: 0,
      broken: [...new Set(broken)].slice(0, 10),
      notes: [
        `${rounds} reloads in ${seconds.toFixed(0)} s; half within ${sorted[sorted.length >> 1]?.toFixed(0)} ms, the slowest ${sorted.at(-1)?.toFixed(0)} ms`,
      ],
    }
  },
}
