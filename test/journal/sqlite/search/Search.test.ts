import { describe, expect, test } from "bun:test"
import { Layer } from "effect"
import type { Event } from "../../../../src/event/Event.ts"
import type { DeliveryStatus, EventQuery } from "../../../../src/journal/Archive.ts"
import { nextQuery } from "../../../../src/journal/EventQuery.ts"
import { WorkerEntrypoint } from "../../../../src/journal/JournalContext.ts"
import { enough, Index, step } from "../../../../src/journal/sqlite/search/Index.ts"
import { Search } from "../../../../src/journal/sqlite/search/Search.ts"
import { Origin } from "../../../../src/journal/stream/Record.ts"
import * as Pattern from "../../../../src/routing/Pattern.ts"
import { eventsContract } from "../../../contract/eventsContract.ts"
import { seeded } from "../../../lib/seeded.ts"
import { sample, tries } from "../../../lib/tries.ts"
import { attempts, event, letter, retrying, searchIds, settlement } from "../../samples.ts"
import { createSqlite } from "../../temporary.ts"
import { closeEngine, openEngine } from "../engine.ts"

const worker = Layer.succeed(WorkerEntrypoint, new URL("../../worker.ts", import.meta.url))
const withWorker = () => {
  const open = createSqlite()
  return () => Layer.provide(open(), worker)
}
for (const [name, create] of sample([
  ["SqliteJournal", createSqlite],
  ["SqliteJournal with its worker", withWorker],
] as const)) {
  eventsContract(name, create)
}

/** An event as a naive reader would keep it in a list. */
interface Kept {
  readonly sequence: number
  readonly event: Event
  readonly deliveries: Array<DeliveryStatus>
}

const types = ["appointment.created", "client.updated", "a", 'odd."type\\', "größe.neu", "x".repeat(300)]
const webhooks = ["scheduling", "platform", "relay"]
const accounts = Array.from({ length: 40 }, (_, index) => (index % 7 === 0 ? `acct_"${index}ü` : `acct_${index}`))
const objects = Array.from({ length: 30 }, (_, index) => (index % 7 === 0 ? `cli_"${index}ü` : `cli_${index}`))
const routes = [["lake"], ["lake", "audit"], ["audit"], []]
const count = step.indexed * 2 + enough.busy - 100
/** The log is pruned up to here. */
const pruned = 1000

const picking = (random: () => number) => {
  const pick = <A>(from: ReadonlyArray<A>): A => from[Math.floor(random() * from.length)] as A
  const upTo = (n: number) => Math.floor(random() * n)
  return { pick, upTo, maybe: (chance: number) => random() < chance }
}
type Picking = ReturnType<typeof picking>

/** A body with ids at the pointers and elsewhere, or bytes that are not JSON. */
const bodyOf = (sequence: number, { pick, upTo, maybe }: Picking): Uint8Array => {
  if (maybe(0.3)) return new Uint8Array(upTo(100)).fill(sequence)
  const object = {
    ...(maybe(0.5) && { id: pick(objects) }),
    ...(maybe(0.5) && { client_id: pick(objects) }),
    ...(maybe(0.5) && { other: pick(objects) }),
  }
  return new TextEncoder().encode(JSON.stringify({ data: { object } }))
}

/** Returns the ids of a body at the pointers, and all its ids. */
const idsIn = (body: Uint8Array): { readonly found: ReadonlyArray<unknown>; readonly all: ReadonlyArray<unknown> } => {
  const text = new TextDecoder().decode(body)
  if (!text.startsWith("{") || text.startsWith("{{")) return { found: [], all: [] }
  const { object } = JSON.parse(text).data
  return { found: [object.id, object.client_id], all: Object.values(object) }
}

const made = (sequence: number, random: Picking): Event => {
  const { pick, upTo, maybe } = random
  return event(maybe(0.05) ? "" : maybe(0.1) ? `evt_"${upTo(50)}é` : `evt_${sequence}`, {
    type: pick(types),
    webhook: pick(webhooks),
    accountId: pick(accounts),
    // The wall clock may be set back.
    receivedAt: 1_000_000 + sequence * 10 + upTo(500),
    body: bodyOf(sequence, random),
  })
}

/**
 * A journal with more events than two steps of the index, of all kinds and in rows of all lengths. Retries and dead
 * letters are older than the log.
 */
const filled = async (random: Picking) => {
  const { engine } = openEngine()
  const kept: Array<Kept> = []
  while (kept.length < count) {
    const length = Math.min(count - kept.length, 1 + (random.maybe(0.3) ? 0 : random.upTo(400)))
    const group = Array.from({ length }, (_, index) => ({
      event: made(kept.length + 1 + index, random),
      sinks: random.pick(routes),
    }))
    engine.appendWith(group, random.maybe(0.2) ? Origin.replayed : Origin.delivered, () => () => {})
    for (const { event, sinks } of group) {
      const deliveries = sinks.map((sink): DeliveryStatus => ({ sink, outcome: "pending", attempts: [] }))
      kept.push({ sequence: kept.length + 1, event, deliveries })
    }
  }
  for (const lane of ["lake", "audit"]) {
    const sequence = Math.floor(count * 0.9) + random.upTo(100)
    const cursor = { sequence, settled: [[sequence + 50, sequence + 99]] as const }
    const delivered = [{ from: 1, to: sequence + 99, at: 2_000, took: 7, code: 200 }]
    const change = {
      retry: [] as Array<ReturnType<typeof retrying>>,
      deadLetter: [] as Array<ReturnType<typeof letter>>,
    }
    for (const one of kept) {
      const at = one.deliveries.findIndex(({ sink }) => sink === lane)
      if (at === -1 || (one.sequence > sequence && (one.sequence < sequence + 50 || one.sequence > sequence + 99)))
        continue
      one.deliveries[at] = { sink: lane, outcome: "delivered", at: 2_000, tries: 1, took: 7, code: 200, attempts: [] }
      const state = random.upTo(50)
      if (state === 0) {
        change.retry.push(retrying(one.sequence))
        one.deliveries[at] = { sink: lane, outcome: "retrying", due: 2_000, tries: 1, attempts }
      } else if (state === 1) {
        change.deadLetter.push(letter(one.sequence))
        one.deliveries[at] = { sink: lane, outcome: "dead", at: 9, tries: 1, attempts }
      }
    }
    await new Promise((done) => engine.settle([settlement(lane, sequence, { cursor, delivered, ...change })], done))
  }
  let oldest = engine.log.oldestRow()
  while (oldest !== undefined && oldest.last <= pruned) {
    engine.log.delete(oldest.first)
    oldest = engine.log.oldestRow()
  }
  const first = oldest?.first ?? 0
  const held = ({ outcome }: DeliveryStatus) => outcome === "retrying" || outcome === "dead"
  return {
    engine,
    kept: kept.filter(({ sequence, deliveries }) => sequence >= first || deliveries.some(held)).reverse(),
  }
}

const queried = ({ pick, upTo, maybe }: Picking, kept: ReadonlyArray<Kept>): EventQuery => {
  const at = 1_000_000 + upTo(count * 10)
  return {
    ...(maybe(0.2) && { id: maybe(0.1) ? "evt_none" : pick(kept).event.id }),
    ...(maybe(0.05) && { sequence: upTo(count) }),
    ...(maybe(0.4) && { types: [pick(["client.*", "**", "{appointment,größe}.*", "nope.**", "a"]), "x*"] }),
    ...(maybe(0.3) && { account: pick([...accounts, "acct_none"]) }),
    ...(maybe(0.3) && { object: pick([...objects, "cli_none"]) }),
    ...(maybe(0.05) && { mentioned: pick([...objects, "cli_none"]) }),
    ...(maybe(0.3) && { webhook: pick([...webhooks, "none"]) }),
    ...(maybe(0.2) && { since: at - upTo(50_000) }),
    ...(maybe(0.2) && { until: at }),
    ...(maybe(0.4) && { outcome: pick(["delivered", "pending", "retrying", "dead", "unrouted"] as const) }),
    ...(maybe(0.2) && { before: String(upTo(count)) }),
    ...(maybe(0.5) && {
      after: maybe(0.5) ? "" : String(upTo(count)),
      ...(maybe(0.3) && { through: String(upTo(count)) }),
    }),
    limit: pick([60, 500, 20_000]),
  }
}

const expected = (query: EventQuery, kept: ReadonlyArray<Kept>): ReadonlyArray<Kept> => {
  const { id, sequence, types, account, object, mentioned, webhook, since, until, outcome, before, after, through } =
    query
  const patterns = types?.map(Pattern.make)
  return (after === undefined ? kept : kept.toReversed()).filter(
    (one) =>
      (id === undefined || one.event.id === id) &&
      (sequence === undefined || one.sequence === sequence) &&
      (patterns === undefined || patterns.some((pattern) => pattern.matches(one.event.type))) &&
      (account === undefined || one.event.accountId === account) &&
      (object === undefined || idsIn(one.event.body).found.includes(object)) &&
      (mentioned === undefined || idsIn(one.event.body).all.includes(mentioned)) &&
      (webhook === undefined || one.event.webhook === webhook) &&
      (since === undefined || one.event.receivedAt >= since) &&
      (until === undefined || one.event.receivedAt < until) &&
      (before === undefined || one.sequence < Number(before)) &&
      (after === undefined || one.sequence > Number(after)) &&
      (through === undefined || one.sequence <= Number(through)) &&
      (outcome === undefined ||
        (outcome === "unrouted"
          ? one.deliveries.length === 0
          : one.deliveries.some((delivery) => delivery.outcome === outcome))),
  )
}

/** Page after page until the end. */
const all = (search: Search, query: EventQuery, millis: number) => {
  const found = []
  let looked = 0
  for (let next = query; ; ) {
    const page = search.look(next, millis)
    found.push(...page.events)
    looked += page.looked
    if (page.next === undefined) return { found, looked }
    next = nextQuery(query, page.next)
  }
}

describe("Search", () => {
  test("finds the same events as a full read, with or without an index, in slices of any size", async () => {
    const random = picking(seeded(11))
    const { engine, kept } = await filled(random)
    const { db, path } = engine.store
    const index = new Index(db, path, searchIds)
    try {
      for (const steps of [0, 1, 1]) {
        for (let n = 0; n < steps; n++) expect(index.grow()).toBe(true)
        const search = new Search(db, searchIds, index)
        for (let n = 0; n < tries(10); n++) {
          const query = queried(random, kept)
          const { found, looked } = all(search, query, random.pick([1, 1000]))
          const model = expected(query, kept)
          expect({ query, found: found.map(({ sequence }) => sequence) }).toEqual({
            query,
            found: model.map(({ sequence }) => sequence),
          })
          if (query.outcome === undefined && query.sequence === undefined) {
            const { before, after, through } = query
            const range = {
              ...(before && { before }),
              ...(after !== undefined && { after }),
              ...(through && { through }),
            }
            expect([query, looked]).toEqual([query, expected({ ...range, limit: 1 }, kept).length])
          }
          for (const [index, one] of found.slice(0, 20).entries()) {
            const { body: _, ...facts } = model[index]?.event ?? event("")
            expect({ event: one.event, deliveries: one.deliveries }).toEqual({
              event: facts,
              deliveries: model[index]?.deliveries ?? [],
            })
          }
        }
      }
      // Some events were never indexed.
      expect(index.through).toBeLessThan(count)
    } finally {
      index.close()
      closeEngine(engine)
    }
  })
})
