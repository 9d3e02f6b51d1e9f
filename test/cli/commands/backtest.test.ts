import { beforeAll, describe, expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Option, Schema } from "effect"
import { Backtest } from "../../../src/cli/support/comparison.ts"
import { Config } from "../../../src/cli/support/flags.ts"
import { loadLacking } from "../../../src/cli/support/loadConfig.ts"
import { Program } from "../../../src/cli/support/Program.ts"
import type { Event } from "../../../src/event/Event.ts"
import { each, isDelivery } from "../../../src/journal/JournalCopy.ts"
import { reading } from "../../../src/journal/Journals.ts"
import type { WholeJournal } from "../../../src/journal/JournalType.ts"
import { PostgresConfig } from "../../../src/journal/postgres/connection/PostgresConfig.ts"
import * as PostgresJournal from "../../../src/journal/postgres/PostgresJournal.ts"
import { migrate } from "../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { services } from "../../../src/runtime/Process.ts"
import { openDatabase } from "../../journal/postgres/database.ts"
import { optionsAt } from "../../journal/samples.ts"
import { session } from "../../journal/sqlite/session.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { seeded } from "../../lib/seeded.ts"
import { type Postgres, reasonToSkip, sharedPostgres } from "../../parts/Postgres.ts"
import { cli, temporary } from "../harness.ts"
import { baseOf, eventOf, type Config as File, mistakeOf } from "../support/configMistakes.ts"

const directory = temporary()
const hour = 3_600_000
const now = Date.now()
const journal = { path: join(directory, "journal.db") }
const base = baseOf(journal)

let files = 0
const write = (config: object): string => {
  const file = join(directory, `${files++}.json`)
  writeFileSync(file, JSON.stringify(config))
  return file
}

/** Changes a copy of the base config and writes it. */
const changed = (change: (config: File) => void): string => {
  const config = structuredClone(base)
  change(config)
  return write(config)
}

const append = (journal: WholeJournal, events: ReadonlyArray<Event>) =>
  Effect.gen(function* () {
    for (const sink of Object.keys(base.sinks)) yield* journal.openLane(sink)
    for (let at = 0; at < events.length; at += 500) {
      const slice = events.slice(at, at + 500)
      yield* Effect.forEach(slice, (event) => journal.append(event, ["audit"]), { concurrency: "unbounded" })
    }
  })

const fill = (path: string, events: ReadonlyArray<Event>) =>
  session(optionsAt(path), (journal) => append(journal, events)).pipe(Effect.runPromise)

const eventsOf = (amount: number): ReadonlyArray<Event> => {
  const random = seeded(51)
  const from = now - 10 * 24 * hour
  const step = (9 * 24 * hour) / amount
  return Array.from({ length: amount }, (_, index) => eventOf(index, Math.round(from + index * step), random))
}

const running = write(base)
/** The number of events in the journal. */
const kept = 400

describe("backtest", () => {
  beforeAll(() => fill(journal.path, eventsOf(kept)))

  const run = (file: string, ...args: ReadonlyArray<string>) =>
    cli(["backtest", "-c", file, "--against", running, ...args])
  const reported = async (file: string, ...args: ReadonlyArray<string>) => {
    const { code, stdout } = await run(file, "--json", ...args)
    return { code, report: JSON.parse(stdout) }
  }

  test("finds no difference between equal configs, and exits 0", async () => {
    const { code, stdout } = await run(write(base))
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(
        /^400 events, received from \S+ to \S+\n(.*\n)*\n0 events to other sinks, 0 payloads of 0 different, quarantined 0 before, 0 after\n$/,
      ),
    ])
  })

  test("shows events that change their sinks, and exits 1 unless --allow names the sinks", async () => {
    const file = changed(({ routes }) => {
      routes.push({ name: "clients", match: ["client.*"], to: ["chat"] })
    })
    const { code, stdout, stderr } = await run(file)
    expect(code).toBe(1)
    expect(stdout).toContain("+ route clients")
    expect(stdout).toMatch(/client\.created +scheduling +\d+ +\+ chat +evt_\d+/)
    expect(stderr).toContain("these sinks change: chat; if that is intended, `--allow SINK` says so")
    expect((await run(file, "--allow", "chat")).code).toBe(0)
    expect((await run(file, "--allow", "chat:client.**")).code).toBe(0)
    expect((await run(file, "--allow", "chat:client.created")).code).toBe(1)
    expect((await run(file, "--allow", "audit")).code).toBe(1)
  })

  test("routes each event by the hour at which it was received", async () => {
    const movedBy = async (hours: string): Promise<number> => {
      const file = changed(({ routes }) => {
        routes.push({ name: "half", match: ["**"], within: { hours, timeZone: "UTC" }, to: ["chat"] })
      })
      return (await reported(file)).report.moved
    }
    const [all, morning, afternoon] = [
      await movedBy("00:00-24:00"),
      await movedBy("00:00-12:00"),
      await movedBy("12:00-24:00"),
    ]
    expect(morning + afternoon).toBe(all)
    expect(Math.min(morning, afternoon)).toBeGreaterThan(all / 3)
  })

  test("shows the pointers at which payloads differ, and values only with --reveal", async () => {
    const file = changed(({ sinks }) => {
      Object.assign(sinks.lake ?? {}, { headers: { "x-client": "{{id}}" } })
    })
    const { code, report } = await reported(file)
    expect(code).toBe(1)
    expect(report).toMatchObject({ ok: false, moved: 0, unexpected: ["lake"] })
    expect(report.payloads.different).toBe(report.payloads.compared)
    expect(report.pointers).toEqual([
      {
        sink: "lake",
        pointer: "/headers/x-client",
        change: "changed",
        isAllowed: false,
        events: report.payloads.compared,
        example: expect.stringMatching(/^evt_/),
      },
    ])
    const revealed = await reported(file, "--reveal")
    const [one] = revealed.report.pointers
    expect([one.before, one.after]).toEqual([expect.stringMatching(/^cli_/), one.example])
  })

  test("shows that a secret differs, but never the secret", async () => {
    const file = changed(({ sinks }) => {
      Object.assign(sinks.crm ?? {}, { headers: { "x-account": "{{id}}" }, url: "http://127.0.0.1:9/another-path" })
    })
    const { code, stdout } = await run(file, "--reveal")
    expect(code).toBe(1)
    expect(stdout).toMatch(/crm +\/secrets\/headers\.x-account +\d+ +changed: "\*\*\*" → "another \*\*\*"/)
    expect(stdout).toMatch(/crm +\/secrets\/url +\d+ +changed/)
    expect(stdout).not.toContain("another-path")
  })

  test("counts alerts an hour before and after, with digests", async () => {
    const file = changed(({ sinks }) => {
      Object.assign(sinks.chat ?? {}, { digest: { by: ["webhook"], wait: "12 hours" } })
    })
    const { report } = await reported(file, "--allow", "chat")
    const chat = report.alerts.find(({ sink }: { sink: string }) => sink === "chat")
    expect(chat.after.mean).toBeGreaterThan(0)
    expect(chat.after.mean).toBeLessThan(chat.before.mean)
    expect(chat.after.most).toBeLessThanOrEqual(2)
  })

  test("counts the messages of alerts, and not the events that they count", async () => {
    const file = changed(({ sinks }) => {
      Object.assign(sinks.chat ?? {}, { alert: { by: ["webhook"], resolveAfter: "365 days" } })
    })
    const { report } = await reported(file, "--allow", "chat")
    const chat = report.alerts.find(({ sink }: { sink: string }) => sink === "chat")
    expect(chat.after.mean).toBeGreaterThan(0)
    expect(chat.after.mean).toBeLessThan(chat.before.mean)
    expect(chat.after.most).toBe(1)
  })

  test("counts quarantined events, with the reason", async () => {
    const file = changed(({ webhooks }) => {
      Object.assign(webhooks.partners ?? {}, { unknownTypes: "quarantine" })
    })
    const { report } = await reported(file)
    expect(report.quarantined).toEqual({ before: 0, after: report.moved })
    expect(report.sinks).toEqual([
      expect.objectContaining({
        type: "invoice.paid",
        removed: ["audit"],
        added: ["_quarantine"],
        why: "the event type is not in the catalogue",
      }),
    ])
  })

  test("shows that an event can't be rendered", async () => {
    const body = { jmespath: "{ at: starts_with(data.object.amount, 'x') }" }
    const { report } = await reported(
      changed(({ sinks }) => {
        Object.assign(sinks.crm ?? {}, { body })
      }),
    )
    expect(report.pointers).toEqual([
      expect.objectContaining({
        sink: "crm",
        change: "unrenderable",
        pointer: "",
        why: expect.stringContaining("starts_with"),
      }),
    ])
  })

  test("takes a sink that is renamed with its former name for the same sink", async () => {
    const file = changed((config) => {
      const { crm = {} } = config.sinks
      delete config.sinks.crm
      config.sinks.sales = { ...crm, renamedFrom: "crm" }
      for (const one of config.routes) one.to = one.to.map((sink) => (sink === "crm" ? "sales" : sink))
    })
    const { code, report } = await reported(file)
    expect([code, report.moved, report.pointers]).toEqual([0, 0, []])
    expect(report.config[0]).toEqual({ what: "sink", name: "sales", change: "renamed", details: ["crm"] })
  })

  test("reads only the events between two times", async () => {
    const all = eventsOf(kept)
    const [since, until] = [now - 3 * 24 * hour, now - 2 * 24 * hour]
    const { report } = await reported(
      write(base),
      "--since",
      new Date(since).toISOString(),
      "--until",
      new Date(until).toISOString(),
    )
    const within = all.filter(({ receivedAt }) => receivedAt >= since && receivedAt < until)
    expect([report.events, report.first, report.last]).toEqual([
      within.length,
      within[0]?.receivedAt,
      within.at(-1)?.receivedAt,
    ])
  })

  test("says so if no event was compared", async () => {
    const { code, stderr } = await run(write(base), "--since", new Date(now).toISOString())
    expect([code, stderr]).toEqual([0, "the journal keeps no events of this time, so nothing was compared\n"])
  })

  test("reads a journal that a relay has open, and changes nothing in it", async () => {
    const before = readFileSync(journal.path)
    expect((await run(write(base))).code).toBe(0)
    expect(readFileSync(journal.path).equals(before)).toBe(true)
    const meanwhile = session(optionsAt(journal.path), () => Effect.promise(() => run(write(base))))
    expect(await Effect.runPromise(meanwhile)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("400 events,"),
    })
  })

  test("refuses a config that is compared with itself, an unknown sink and a wrong pattern", async () => {
    for (const [args, message] of [
      [["-c", running, "--against", running], "is both the new and the running config"],
      [
        ["-c", write(base), "--against", running, "--allow", "lakes"],
        "--allow lakes: neither config has the sink lakes; they have audit,",
      ],
      [["-c", write(base), "--against", running, "--allow", "lake:a..b"], "--allow lake:a..b: "],
    ] as const) {
      const { code, stderr } = await cli(["backtest", ...args])
      expect([code, stderr]).toEqual([64, expect.stringContaining(message)])
    }
  })

  test("says where there is no journal", async () => {
    const elsewhere = join(directory, "none.db")
    const { code, stderr } = await cli(["backtest", "-c", write(base), "--against", write(baseOf({ path: elsewhere }))])
    expect([code, stderr]).toEqual([74, expect.stringContaining(`There is no journal at ${elsewhere}.`)])
  })
})

/** Many events take minutes: the long run has 100,000, with RELAY_ROUNDS=10. */
const isLong = process.env.RELAY_PARTS === "1"
const amount = isLong ? 10_000 * Number(process.env.RELAY_ROUNDS ?? 1) : 300

describe("a mistake in a config", () => {
  const load = (file: string) =>
    Effect.provideService(loadLacking, Config, Option.some(file)).pipe(
      Effect.provide(services),
      Effect.provideService(Program, Program.of({ entry: new URL(import.meta.url), command: "relay", env: {} })),
    )

  test(`is visible in the difference: 50 of them over ${amount} events${isLong ? "" : " (10,000 with RELAY_PARTS=1)"}`, async () => {
    const path = join(directory, "mistakes.db")
    await fill(path, eventsOf(amount))
    const random = seeded(50)
    const found = Array.from({ length: 50 }, (_, index) => mistakeOf(base, index, random))
    const visible = await Effect.runPromise(
      Effect.gen(function* () {
        const before = yield* load(running)
        const backtests: Array<Backtest> = []
        for (const { config } of found) {
          const after = yield* load(write(config))
          backtests.push(new Backtest(before, after, { allow: [], isThorough: false, reveal: false }))
        }
        const { streams } = yield* reading({ type: "sqlite", ...optionsAt(path) })
        for (const stream of streams) {
          yield* each.event(stream.events, (page) =>
            Effect.sync(() => {
              for (const { entry } of page.filter(isDelivery)) for (const one of backtests) one.add(entry)
            }),
          )
        }
        return backtests.map(({ report }) => [
          ...new Set([
            ...report.sinks.flatMap(({ removed, added }) => [...removed, ...added]),
            ...report.pointers.map(({ sink }) => sink),
          ]),
        ])
      }).pipe(Effect.scoped),
    )
    const hidden = found.flatMap(({ name, sinks }, index) => {
      const missing = sinks.filter((sink) => !visible[index]?.includes(sink))
      return missing.length === 0 ? [] : [`${name}: ${missing.join(", ")}`]
    })
    expect(hidden).toEqual([])
  }, 3_600_000)
})

suiteUnless(reasonToSkip(), "backtest on PostgreSQL", () => {
  let server: Postgres
  beforeAll(async () => {
    server = await sharedPostgres()
  }, 60_000)

  it.live("reads the events of all streams while a relay is on the journal", function* () {
    const keys = { url: server.url, schema: `backtest_${process.pid}`, name: "one" }
    const config = Schema.decodeUnknownSync(PostgresConfig)(keys)
    const database = yield* openDatabase(server.url, { schema: config.schema })
    yield* Effect.orDie(migrate(database, config.schema))
    const { retention, maxSize, duplicates } = config
    const journal = yield* PostgresJournal.make(database, { name: "one", retention, maxSize, duplicates })
    yield* append(journal, eventsOf(200))
    const before = baseOf({ type: "postgres", ...keys })
    const after = structuredClone(before)
    after.routes.push({ name: "clients", match: ["client.*"], to: ["chat"] })
    const since = new Date(now - 5 * 24 * hour).toISOString()
    const args = ["backtest", "-c", write(after), "--against", write(before), "--since", since, "--json"]
    const { code, stdout } = yield* Effect.promise(() => cli(args))
    const report = JSON.parse(stdout)
    const within = eventsOf(200).filter(({ receivedAt }) => receivedAt >= now - 5 * 24 * hour)
    const moved = within.filter(({ type }) => type.startsWith("client."))
    expect([code, report.events, report.moved, report.unexpected]).toEqual([1, within.length, moved.length, ["chat"]])
  })
})
