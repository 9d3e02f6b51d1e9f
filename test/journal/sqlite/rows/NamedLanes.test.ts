import { describe, expect } from "bun:test"
import { DatabaseSync } from "node:sqlite"
import { Effect } from "effect"
import { each } from "../../../../src/journal/JournalCopy.ts"
import type { WholeJournal } from "../../../../src/journal/JournalType.ts"
import * as SqliteCopySource from "../../../../src/journal/sqlite/copy/SqliteCopySource.ts"
import { it } from "../../../lib/effect.ts"
import { letter, retrying, settlement } from "../../samples.ts"
import { options } from "../../temporary.ts"
import { appendAll, session } from "../session.ts"

/** More rows than a page of a copy has. */
const many = 70
const ids = Array.from({ length: many }, (_, index) => `evt_${index + 1}`)

/** Two lanes with retries and dead letters of all events. One was renamed, and a new sink has its former name. */
const fill = Effect.fnUntraced(function* (journal: WholeJournal) {
  for (const name of ["lake", "pond"]) yield* journal.openLane(name)
  yield* appendAll(journal, ids, ["lake", "pond"])
  const sequences = ids.map((_, index) => index + 1)
  const changes = {
    retry: sequences.slice(35).map((sequence) => retrying(sequence)),
    deadLetter: sequences.slice(0, 35).map(letter),
  }
  yield* journal.settle(["lake", "pond"].map((name) => settlement(name, many, { ...changes, delivered: [] })))
  yield* journal.openLane("river", { renamedFrom: "lake" })
  yield* journal.openLane("lake")
  yield* journal.setPaused("river", true)
  yield* appendAll(journal, ["last"], ["river", "lake"])
})

const change = (path: string, sql: string): void => {
  const db = new DatabaseSync(path)
  db.exec(sql)
  db.close()
}

const summary = (journal: WholeJournal) =>
  Effect.map(journal.lanes, (lanes) => lanes.map(({ name, backlog, deadLetters }) => [name, backlog, deadLetters]))

describe("names of lanes", () => {
  it.live("are in one table: events, and all other rows, have ids, which are as long as the names", function* () {
    const at = options()
    yield* session(at, fill)
    const db = new DatabaseSync(at.path)
    const column = (sql: string) =>
      db
        .prepare(sql)
        .all()
        .map((row) => Object.values(row)[0])
    expect(new Set(column("SELECT routes FROM log"))).toEqual(new Set(['[["lake","pond"]]', '[["lake","lake~2"]]']))
    expect(column("SELECT DISTINCT lane FROM dead ORDER BY lane")).toEqual(["lake", "pond"])
    expect(column("SELECT name FROM lane ORDER BY name")).toEqual(["lake", "lake~2", "pond"])
    expect(db.prepare("SELECT name, id, former FROM lane_name ORDER BY name").all()).toMatchObject([
      { name: "lake", id: "lake~2", former: 0 },
      { name: "river", id: "lake", former: 0 },
    ])
    db.close()
  })

  it.live("are given to a copy in the place of ids", function* () {
    const at = options()
    yield* session(at, fill)
    yield* Effect.scoped(
      Effect.gen(function* () {
        const { streams, paused } = yield* SqliteCopySource.source(at)
        const [stream] = streams
        if (stream === undefined) return
        expect(stream.lanes.map(({ name }) => name).toSorted()).toEqual(["lake", "pond", "river"])
        expect(paused.get("river")?.paused).toBe(true)
        const kept: Array<string> = []
        const note = (some: ReadonlyArray<{ readonly lane: string }>) =>
          Effect.sync(() => kept.push(...some.map(({ lane }) => lane)))
        yield* each.retry(stream.retries, note)
        yield* each.letter(stream.letters, note)
        expect(
          Object.entries(Object.groupBy(kept, (lane) => lane)).map(([lane, all = []]) => [lane, all.length]),
        ).toEqual([
          ["river", many],
          ["pond", many],
        ])
        const routes = new Set<string>()
        yield* each.event(stream.events, (some) =>
          Effect.sync(() => {
            for (const { entry } of some) routes.add(entry.sinks.join(" "))
          }),
        )
        expect([...routes]).toEqual(["river pond", "river lake"])
      }),
    )
  })

  it.live("are added to a file of the earlier schema, with all pending events of its lanes", function* () {
    const at = options()
    yield* session(at, function* (journal) {
      yield* journal.openLane("lake")
      yield* appendAll(journal, ids, ["lake"])
      yield* journal.settle([settlement("lake", 2, { retry: [retrying(1)], deadLetter: [letter(2)] })])
    })
    change(
      at.path,
      "DROP TABLE alert; DROP TABLE lane_name; ALTER TABLE lane DROP COLUMN mute; PRAGMA user_version = 1",
    )
    yield* session(at, function* (journal) {
      expect(yield* summary(journal)).toEqual([["lake", many - 1, 1]])
      yield* journal.openLane("river", { renamedFrom: "lake" })
      expect(yield* summary(journal)).toEqual([["river", many - 1, 1]])
    })
  })

  for (const [what, harm] of [
    ["own name", "UPDATE lane_name SET name = 'rivet' WHERE name = 'river'"],
    ["id", "UPDATE lane_name SET id = 'pond' WHERE name = 'river'"],
  ] as const) {
    for (const isTaken of [false, true]) {
      const first = isTaken ? "lake~1" : "lake"
      it.live(`are not used if a lane's ${what} is damaged: the lane is then ${first}, and reported`, function* () {
        const at = options()
        yield* session(at, function* (journal) {
          for (const name of ["lake", "pond"]) yield* journal.openLane(name)
          yield* appendAll(journal, ids, ["lake", "pond"])
          yield* journal.openLane("river", { renamedFrom: "lake" })
          if (isTaken) yield* journal.openLane("lake")
        })
        change(at.path, harm)
        const others = isTaken ? [["lake", 0, 0]] : []
        yield* session(at, function* (journal) {
          expect((yield* journal.status).message).toContain("The name of a renamed lane was damaged in the journal")
          expect(yield* summary(journal)).toEqual([...others, [first, many, 0], ["pond", many, 0]])
          yield* journal.openLane("river", { renamedFrom: first })
          yield* journal.acknowledge
        })
        yield* session(at, function* (journal) {
          expect((yield* journal.status).message).toBe("")
          expect(yield* summary(journal)).toEqual([...others, ["pond", many, 0], ["river", many, 0]])
        })
      })
    }
  }
})
