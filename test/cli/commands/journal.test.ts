import { describe, expect, test } from "bun:test"
import { appendFileSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Effect } from "effect"
import * as SqliteJournal from "../../../src/journal/sqlite/SqliteJournal.ts"
import { event, optionsAt, retrying, settlement } from "../../journal/samples.ts"
import { whole } from "../../journal/whole.ts"
import { it } from "../../lib/effect.ts"
import { configsIn } from "../configs.ts"
import { cli, temporary } from "../harness.ts"
import { runningIn } from "../running.ts"

const directory = temporary()
const running = runningIn(directory)
const config = configsIn(directory)

const deadLetter = (sequence: number) => ({
  sequence,
  at: 9,
  refunded: 0,
  failed: [{ at: 5, reason: "DeliveryRejected", message: "the sink answered 422\u001b[2J" }],
})

describe("journal", () => {
  it.live("journal import and salvage keep erased events erased, and deliver none of them", function* () {
    const { ask, journal } = yield* running()
    yield* journal.openLane("lake")
    const other = optionsAt(join(directory, "erased", "journal.db"))
    yield* Effect.flatMap(whole, (journal) =>
      Effect.gen(function* () {
        yield* journal.openLane("lake")
        for (const id of ["a", "b", "c"]) yield* journal.append(event(id), ["lake"])
        yield* journal.settle([settlement("lake", 2, { deadLetter: [deadLetter(2)] })])
        yield* journal.erase([1, 2, 3], true)
      }),
    ).pipe(Effect.provide(SqliteJournal.layer(other)))
    const salvaged = join(directory, "erased.ndjson")
    expect((yield* ask("journal", "salvage", salvaged, other.path)).code).toBe(0)
    expect(readFileSync(salvaged, "utf8")).not.toContain("sha256=")
    for (const file of [salvaged, other.path]) {
      const imported = yield* ask("journal", "import", file)
      expect([imported.code, imported.stderr]).toEqual([0, ""])
    }
    const letters = yield* journal.deadLetters({ limit: 10 })
    expect(letters.map(({ entry }) => entry.event)).toMatchObject([{ id: "b", signature: "", erased: {} }])
    expect((yield* journal.read(0, 10)).filter(({ sinks }) => sinks.length > 0)).toEqual([])
    const shown = yield* ask("dlq", "show", letters[0]?.id ?? "")
    expect([shown.code, shown.stdout]).toEqual([0, expect.stringMatching(/Its body was erased on 20\S+Z\.\n$/)])
    const replayed = yield* ask("dlq", "replay", letters[0]?.id ?? "")
    expect([replayed.code, replayed.stdout]).toEqual([
      0,
      "0 dead letters queued for delivery again\n1 dead letter left out: their bodies were erased; `relay explain` says when\n",
    ])
  })

  it.live(
    "journal import delivers once the undelivered events of a journal or a salvage, and names removed sinks",
    function* () {
      const { ask, journal } = yield* running()
      yield* journal.openLane("lake")
      const other = optionsAt(join(directory, "other", "journal.db"))
      yield* Effect.flatMap(whole, (journal) =>
        Effect.gen(function* () {
          for (const lane of ["lake", "old"]) yield* journal.openLane(lane)
          for (let index = 1; index <= 450; index++) yield* journal.append(event(`evt_${index}`), ["lake", "old"])
          const done = Array.from({ length: 400 }, (_, index) => index + 1)
          yield* journal.settle([
            settlement("lake", done.length, { deadLetter: [deadLetter(7)], retry: [retrying(9)] }),
          ])
        }),
      ).pipe(Effect.provide(SqliteJournal.layer(other)))
      const salvaged = join(directory, "salvaged.ndjson")
      expect((yield* ask("journal", "salvage", salvaged, other.path)).code).toBe(0)
      const first = yield* ask("journal", "import", other.path)
      expect([first.code, first.stderr]).toEqual([0, ""])
      expect(first.stdout).toBe(
        "51 events queued for delivery, 1 dead letter restored\n  450 events for old not imported: the config has no such sink; add it and import again, or ignore them\n",
      )
      const entries = (yield* journal.read(0, 1_000)).filter(({ sinks }) => sinks.length > 0)
      expect(entries.map(({ event }) => event)).toEqual(
        [9, ...Array.from({ length: 50 }, (_, i) => 401 + i)].map((n) => event(`evt_${n}`)),
      )
      // A line that was cut short costs itself alone.
      appendFileSync(salvaged, '{"journal":"cut sh')
      const again = yield* ask("journal", "import", salvaged)
      expect([again.code, again.stderr]).toEqual([0, ""])
      expect(again.stdout).toStartWith(
        "0 events queued for delivery, 52 events already in the journal\n  1 record of it could not be read\n  450 ",
      )
      const [sound] = readFileSync(salvaged, "utf8").split("\n")
      const odd = [
        { receivedAt: 1e300 },
        { at: -1 },
        { sequence: 0 },
        { bodyBase64: "!" },
        { trace: { traceparent: "x" } },
      ]
      const strange = odd.map((more) => JSON.stringify({ ...JSON.parse(sound ?? ""), ...more })).join("\n")
      const refused = join(directory, "strange.ndjson")
      writeFileSync(refused, strange)
      expect(yield* ask("journal", "import", refused, "--json")).toEqual({
        code: 1,
        stdout: "",
        stderr: `relay: ${refused} is neither a journal nor a salvage of one: none of its records can be read\n  Correct the path.\n`,
      })
      expect(JSON.parse((yield* ask("journal", "import", salvaged, "--json")).stdout)).toMatchObject({
        known: 52,
        pending: 0,
      })
      const { code, stderr } = yield* ask("journal", "import", join(directory, "nothing"))
      expect([code, stderr]).toEqual([74, expect.stringContaining("nothing can't be read")])
    },
  )

  it.live(
    "journal import refuses a file that is neither a journal nor a salvage, and accepts an empty journal",
    function* () {
      const { ask, file } = yield* running()
      const write = (name: string, text: string) => {
        const path = join(directory, name)
        writeFileSync(path, text)
        return path
      }
      const database = join(directory, "foreign.db")
      const db = new DatabaseSync(database)
      db.prepare("CREATE TABLE lane (name TEXT)").run()
      db.close()
      for (const path of [
        file,
        database,
        write("empty", ""),
        write("hostname", "a-host\n"),
        write("log", '{"a":1}\n{}\n'),
      ]) {
        const { code, stdout, stderr } = yield* ask("journal", "import", path, "--json")
        expect([code, stdout, stderr]).toEqual([
          1,
          "",
          expect.stringContaining(`${path} is neither a journal nor a salvage of one`),
        ])
      }
      const sound = join(directory, "without-events", "journal.db")
      yield* Effect.scoped(Effect.provide(Effect.void, SqliteJournal.layer(optionsAt(sound))))
      expect(yield* ask("journal", "import", sound)).toEqual({
        code: 0,
        stdout: "0 events queued for delivery\n",
        stderr: "",
      })
    },
  )

  test("check of a journal that is not there exits 74", async () => {
    const { code, stderr } = await cli(["journal", "check", "-c", config()])
    expect([code, stderr]).toEqual([74, expect.stringContaining("There is no journal")])
  })

  test("reads only the journal of a config, even if secrets or sinks are missing", async () => {
    const path = join(directory, "alone", "journal.db")
    await Effect.runPromise(Effect.scoped(Effect.provide(Effect.void, SqliteJournal.layer(optionsAt(path)))))
    const broken = { journal: { path }, webhooks: { a: { secrets: "${NOT_SET}" } }, sinks: { b: { type: "nothing" } } }
    const { code, stdout, stderr } = await cli(["journal", "check", "-c", config(broken)])
    expect([code, stderr]).toEqual([0, ""])
    expect(stdout).toContain(`${path}: sound`)
    const wrong = await cli(["journal", "check", "-c", config({ journal: { pth: path } })])
    expect([wrong.code, wrong.stderr]).toEqual([78, expect.stringContaining('did you mean "path"?')])
    const absent = await cli(["journal", "check", "-c", config({ journal: { path: "${NOT_SET}" } })])
    expect([absent.code, absent.stderr]).toEqual([78, expect.stringContaining("the variable NOT_SET is not set")])
  })

  test("journal copy says which journals it needs, and which keys name them", async () => {
    const copy = (from: string, to: string) => cli(["journal", "copy", "--from", from, "--to", to, "-c", config()])
    const said = async (from: string, to: string) => {
      const { code, stderr } = await copy(from, to)
      return [code, stderr]
    }
    expect(await said("sqlite", "sqlite")).toEqual([64, expect.stringContaining("one of another type")])
    expect(await said("sqlite", "kafka")).toEqual([64, expect.stringContaining("sqlite, postgres")])
    expect(await said("sqlite", "postgres")).toEqual([1, expect.stringContaining("name the config that does with -c")])
  })
})
