import { describe, expect, test } from "bun:test"
import { Layer } from "effect"
import type { Event } from "../../../../src/event/Event.ts"
import type { DeliveryStatus, EventQuery } from "../../../../src/journal/Journal.ts"
import { Engine } from "../../../../src/journal/sqlite/Engine.ts"
import { open } from "../../../../src/journal/sqlite/file/Store.ts"
import { WorkerEntrypoint } from "../../../../src/journal/sqlite/JournalWorker.ts"
import { Origin } from "../../../../src/journal/sqlite/Record.ts"
import { recover } from "../../../../src/journal/sqlite/Restore.ts"
import * as SqliteJournal from "../../../../src/journal/sqlite/SqliteJournal.ts"
import { Index } from "../../../../src/journal/sqlite/search/Index.ts"
import * as Span from "../../../../src/journal/sqlite/search/IndexBlock.ts"
import { Search } from "../../../../src/journal/sqlite/search/Search.ts"
import * as Pattern from "../../../../src/routing/Pattern.ts"
import { eventsContract } from "../../../contract/eventsContract.ts"
import { seeded } from "../../../lib/seeded.ts"
import { attempts, event, letter, retrying, settlement } from "../../samples.ts"
import { options } from "../../temporary.ts"

const worker = Layer.succeed(WorkerEntrypoint, new URL("../../worker.ts", import.meta.url))
eventsContract("SqliteJournal", () => SqliteJournal.layer(options()))
eventsContract("SqliteJournal with its worker", () => SqliteJournal.layer(options()).pipe(Layer.provide(worker)))

const opened = () => {
  const at = options()
  const engine = new Engine(open(at.path), at)
  for (const _ of recover(engine, at, Date.now()));
  return engine
}

const close = (engine: Engine) => {
  engine.stop()
  engine.store.close()
}

/** What a naive reader would keep in a list. */
interface Kept {
  readonly sequence: number
  readonly event: Event
  readonly fates: Array<DeliveryStatus>
}

const types = ["appointment.created", "client.updated", "a", 'odd."type\\', "größe.neu", "x".repeat(300)]
const webhooks = ["scheduling", "platform", "relay"]
const accounts = Array.from({ length: 40 }, (_, index) => (index % 7 === 0 ? `acct_"${index}ü` : `acct_${index}`))
const routes = [["lake"], ["lake", "audit"], ["audit"], []]
const count = Span.size * 2 + 700
/** Until there the log is pruned. */
const pruned = 1000

const picking = (random: () => number) => {
  const pick = <A>(from: ReadonlyArray<A>): A => from[Math.floor(random() * from.length)] as A
  const upTo = (n: number) => Math.floor(random() * n)
  return { pick, upTo, maybe: (chance: number) => random() < chance }
}
type Picking = ReturnType<typeof picking>

const made = (sequence: number, { pick, upTo, maybe }: Picking): Event =>
  event(maybe(0.05) ? "" : maybe(0.1) ? `evt_"${upTo(50)}é` : `evt_${sequence}`, {
    type: pick(types),
    webhook: pick(webhooks),
    accountId: pick(accounts),
    // The wall clock may be set back.
    receivedAt: 1_000_000 + sequence * 10 + upTo(500),
    body: new Uint8Array(upTo(100)).fill(sequence),
  })

/** Two spans and a bit of events of all kinds, in rows of all lengths; what a lane parked or buried has outlived the log. */
const filled = async (random: Picking) => {
  const engine = opened()
  const kept: Array<Kept> = []
  while (kept.length < count) {
    const length = Math.min(count - kept.length, 1 + (random.maybe(0.3) ? 0 : random.upTo(400)))
    const group = Array.from({ length }, (_, index) => ({
      event: made(kept.length + 1 + index, random),
      sinks: random.pick(routes),
    }))
    engine.appendWith(group, random.maybe(0.2) ? Origin.replayed : Origin.delivered, () => () => {})
    for (const { event, sinks } of group) {
      const fates = sinks.map((sink): DeliveryStatus => ({ sink, outcome: "pending", attempts: [] }))
      kept.push({ sequence: kept.length + 1, event, fates })
    }
  }
  for (const lane of ["lake", "audit"]) {
    const sequence = Math.floor(count * 0.9) + random.upTo(100)
    const cursor = { sequence, settled: [[sequence + 50, sequence + 99]] as const }
    const change = {
      retry: [] as Array<ReturnType<typeof retrying>>,
      deadLetter: [] as Array<ReturnType<typeof letter>>,
    }
    for (const one of kept) {
      const at = one.fates.findIndex(({ sink }) => sink === lane)
      if (at === -1 || (one.sequence > sequence && (one.sequence < sequence + 50 || one.sequence > sequence + 99)))
        continue
      one.fates[at] = { sink: lane, outcome: "delivered", attempts: [] }
      const fate = random.upTo(50)
      if (fate === 0) {
        change.retry.push(retrying(one.sequence))
        one.fates[at] = { sink: lane, outcome: "retrying", due: 2_000, attempts }
      } else if (fate === 1) {
        change.deadLetter.push(letter(one.sequence))
        one.fates[at] = { sink: lane, outcome: "dead", at: 9, attempts }
      }
    }
    await new Promise((done) => engine.settle([settlement(lane, sequence, { cursor, ...change })], done))
  }
  let oldest = engine.log.oldestRow()
  while (oldest !== undefined && oldest.last <= pruned) {
    engine.log.delete(oldest.first)
    oldest = engine.log.oldestRow()
  }
  const tail = oldest?.first ?? 0
  const held = ({ outcome }: DeliveryStatus) => outcome === "retrying" || outcome === "dead"
  return { engine, kept: kept.filter(({ sequence, fates }) => sequence >= tail || fates.some(held)).reverse() }
}

const queried = ({ pick, upTo, maybe }: Picking, kept: ReadonlyArray<Kept>): EventQuery => {
  const at = 1_000_000 + upTo(count * 10)
  return {
    ...(maybe(0.2) && { id: maybe(0.1) ? "evt_none" : pick(kept).event.id }),
    ...(maybe(0.05) && { sequence: upTo(count) }),
    ...(maybe(0.4) && { types: [pick(["client.*", "**", "{appointment,größe}.*", "nope.**", "a"]), "x*"] }),
    ...(maybe(0.3) && { account: pick([...accounts, "acct_none"]) }),
    ...(maybe(0.3) && { webhook: pick([...webhooks, "none"]) }),
    ...(maybe(0.2) && { since: at - upTo(50_000) }),
    ...(maybe(0.2) && { until: at }),
    ...(maybe(0.4) && { outcome: pick(["delivered", "pending", "retrying", "dead", "unrouted"] as const) }),
    ...(maybe(0.2) && { before: upTo(count) }),
    limit: pick([60, 500, 20_000]),
  }
}

const expected = (query: EventQuery, kept: ReadonlyArray<Kept>): ReadonlyArray<Kept> => {
  const { id, sequence, types, account, webhook, since, until, outcome, before } = query
  const patterns = types?.map(Pattern.make)
  return kept.filter(
    (one) =>
      (id === undefined || one.event.id === id) &&
      (sequence === undefined || one.sequence === sequence) &&
      (patterns === undefined || patterns.some((pattern) => pattern.matches(one.event.type))) &&
      (account === undefined || one.event.accountId === account) &&
      (webhook === undefined || one.event.webhook === webhook) &&
      (since === undefined || one.event.receivedAt >= since) &&
      (until === undefined || one.event.receivedAt < until) &&
      (before === undefined || one.sequence < before) &&
      (outcome === undefined ||
        (outcome === "unrouted" ? one.fates.length === 0 : one.fates.some((fate) => fate.outcome === outcome))),
  )
}

/** Page after page until the end. */
const all = (search: Search, query: EventQuery, millis: number) => {
  const found = []
  for (let before = query.before; ; ) {
    const page = search.look({ ...query, ...(before !== undefined && { before }) }, millis)
    found.push(...page.events)
    if (page.next === undefined) return found
    before = page.next
  }
}

describe("Search", () => {
  test("finds what a reader of everything finds, indexed or not, in whatever slices", async () => {
    const random = picking(seeded(11))
    const { engine, kept } = await filled(random)
    const { db, path } = engine.store
    const index = new Index(db, path)
    try {
      for (const spans of [0, 1, 1]) {
        for (let n = 0; n < spans; n++) expect(index.grow()).toBe(true)
        const search = new Search(db, index)
        for (let n = 0; n < 6; n++) {
          const query = queried(random, kept)
          const found = all(search, query, random.pick([1, 1000]))
          const model = expected(query, kept)
          expect({ query, found: found.map(({ sequence }) => sequence) }).toEqual({
            query,
            found: model.map(({ sequence }) => sequence),
          })
          for (const [index, one] of found.slice(0, 20).entries()) {
            const { body: _, ...facts } = model[index]?.event ?? event("")
            expect({ event: one.event, fates: one.fates }).toEqual({ event: facts, fates: model[index]?.fates ?? [] })
          }
        }
      }
      expect(index.grow()).toBe(false)
    } finally {
      index.close()
      close(engine)
    }
  }, 30_000)
})
