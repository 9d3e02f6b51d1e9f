/** Tests that this version of the relay reads the journals of released versions, and delivers their pending events. */
import { beforeAll, describe, expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Duration, Effect } from "effect"
import { steps } from "../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { migrate } from "../../../src/journal/sqlite/rows/Migrations.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { freePort } from "../../lib/port.ts"
import { relay, startRelay } from "../../lib/relay.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { type Postgres, reasonToSkip, sharedPostgres } from "../../parts/Postgres.ts"
import { accountOf } from "./Account.ts"
import { inSchema, onFile, restoreFile, restoreScript, scriptText, versions } from "./Fixtures.ts"
import { importAnother, type Open, session } from "./History.ts"

const told = readFileSync(join(import.meta.dir, "told.txt"), "utf8")
const newest = versions.at(-1) ?? ""
/** A retention that prunes nothing during the test. */
const forever = Duration.days(36_525)

/** The events that the history leaves undelivered, by sink. */
const owed = {
  lake: ["altered", "imported", "moved", "pending", "replayed", "retrying"],
  oncall: ["pending", "resent"],
  ordered: ["ordered"],
  page: ["renamed"],
  chat: ["owed"],
}

/** Reads the account once the relay has read its state and owns the stream that all relays share. */
const settledAccount = (open: Open) =>
  session(open(forever), (journal) =>
    Effect.gen(function* () {
      // A relay knows the counts of a stream when it owns the stream.
      while ((yield* journal.lanes).reduce((sum, { backlog }) => sum + backlog, 0) < 11)
        yield* Effect.sleep("20 millis")
      expect(yield* importAnother(journal)).toEqual({ pending: 0, deadLetters: 0, known: 2 })
      return yield* accountOf(journal)
    }),
  )

/**
 * Runs the relay on a journal until its sinks have all undelivered events. Returns the output of `journal check`
 * afterwards.
 */
const deliver = (journal: object, cwd: string) => Effect.promise(() => delivering(journal, cwd))

const delivering = async (journal: object, cwd: string) => {
  const received: Record<string, Array<string>> = Object.fromEntries(Object.keys(owed).map((name) => [name, []]))
  const { promise: all, resolve } = Promise.withResolvers<void>()
  const receiver = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) => {
      const sink = new URL(request.url).pathname.slice(1)
      received[sink]?.push(request.headers.get("x-relay-event-id") ?? "")
      if (Object.entries(owed).every(([name, ids]) => (received[name]?.length ?? 0) >= ids.length)) resolve()
      return new Response()
    },
  })
  const sinks = Object.keys(owed).map((name) => [name, { type: "http", url: `${receiver.url}${name}` }])
  writeFileSync(
    join(cwd, "relay.config.json"),
    JSON.stringify({
      listen: `127.0.0.1:${await freePort()}`,
      admin: { listen: `127.0.0.1:${await freePort()}` },
      journal: { retention: "36500 days", ...journal },
      webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "current", value: "a-secret-of-this-test" }] } },
      sinks: {
        ...Object.fromEntries(sinks),
        ordered: { type: "http", url: `${receiver.url}ordered`, order: "key" },
      },
      routes: [{ name: "everything", match: "**", to: Object.keys(owed) }],
    }),
  )
  const started = await startRelay("relay.config.json", { cwd })
  try {
    expect(await relay(["lanes", "resume", "chat"], { cwd })).toMatchObject({ code: 0, stderr: "" })
    await all
  } finally {
    expect(await started.kill()).toBe(0)
    await receiver.stop(true)
  }
  for (const ids of Object.values(received)) ids.sort()
  expect(received).toEqual(owed)
  return relay(["journal", "check"], { cwd })
}

const textOf = ({ events, letters, lanes }: Effect.Success<ReturnType<typeof accountOf>>): string =>
  [...events, `${letters.join("\n")}\n`, `${lanes.join("\n")}\n`].join("\n")

/** Lanes that have nothing left to deliver. */
const emptied = ["_quarantine: 0, 0 retrying, 1 dead", "chat: 0, 0 retrying, 0 dead", "lake: 0, 0 retrying, 2 dead"]

const schemaOf = (db: DatabaseSync) =>
  db.prepare("SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name").all()
const today = (): ReturnType<typeof schemaOf> => {
  const db = new DatabaseSync(":memory:")
  migrate(db, "")
  return schemaOf(db)
}

const remedy =
  "A step of the schema was edited, or added. While this version is unreleased make its fixture anew: bun test/journal/released/make.ts. A step of a released version stays as it is: change what it made by a new step."

describe("the fixtures of released journals", () => {
  test(`have the current schema in ${newest}, or else: bun test/journal/released/make.ts`, () => {
    const path = join(temporaryDirectory("schema-"), "journal.db")
    restoreFile(newest, path)
    const db = new DatabaseSync(path)
    const found = schemaOf(db)
    db.close()
    expect([remedy, found]).toEqual([remedy, today()])
    expect([remedy, scriptText(newest).startsWith(`${steps.join("\n")}\nDELETE`)]).toEqual([remedy, true])
  })

  test("keep the steps that they were released with", () => {
    for (const version of versions) {
      const script = scriptText(version)
      const [, count] = /\(version,(\d+)\)/.exec(script) ?? []
      expect([version, remedy, script.startsWith(steps.slice(0, Number(count)).join("\n"))]).toEqual([
        version,
        remedy,
        true,
      ])
    }
  })
})

for (const version of versions) {
  describe(`a file that relay ${version} left`, () => {
    it.live(
      "is found as its history says, and delivered",
      function* () {
        const cwd = temporaryDirectory("released-")
        const path = join(cwd, "journal.db")
        restoreFile(version, path)
        expect(textOf(yield* settledAccount(onFile(path)))).toBe(told)
        expect(yield* deliver({ path }, cwd)).toEqual({
          code: 0,
          stdout: expect.stringContaining(": sound\n"),
          stderr: "",
        })
        const db = new DatabaseSync(path)
        expect(schemaOf(db)).toEqual(today())
        db.close()
        const { lanes } = yield* session(onFile(path)(forever), accountOf)
        expect(lanes).toEqual(expect.arrayContaining(emptied))
      },
      30_000,
    )
  })
}

suiteUnless(reasonToSkip(), "a database that a released relay left", () => {
  let server: Postgres
  beforeAll(async () => {
    server = await sharedPostgres()
  }, 60_000)

  for (const version of versions) {
    it.live(
      `is found as its history says, and delivered: relay ${version}`,
      function* () {
        const schema = `released_${process.pid}_${version.replaceAll(/\W/g, "_")}`
        yield* restoreScript(version, server.url, schema)
        const open = inSchema(server.url, schema)
        expect(textOf(yield* settledAccount(open))).toBe(told)
        const cwd = temporaryDirectory("released-")
        const journal = { type: "postgres", url: server.url, schema, name: "one" }
        expect(yield* deliver(journal, cwd)).toEqual({
          code: 0,
          stdout: expect.stringContaining(": sound\n"),
          stderr: "",
        })
        const { lanes } = yield* session(open(forever), accountOf)
        expect(lanes).toEqual(expect.arrayContaining(emptied))
      },
      60_000,
    )
  }
})
