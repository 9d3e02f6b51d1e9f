/**
 * An upgrade under load and a downgrade, between this relay and its next version. The sender of this test repeats
 * deliveries that are refused or not answered.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { path, Receiver, Sender, secret, bodyOf as usual } from "../faults/relay/Traffic.ts"
import { procedures } from "../lib/docs.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { makeNextRelay, type NextRelay } from "../lib/nextRelay.ts"
import { freePort } from "../lib/port.ts"
import { type Relay, relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { makePostgres, type Postgres, reasonToSkip } from "../parts/Postgres.ts"

let next: NextRelay
/** The version before the upgrade: this one, unless RELAY_BINARY names a released binary. */
let before = ""
const running = new Set<Relay>()
beforeAll(async () => {
  next = makeNextRelay()
  const { stdout } = await relay(["--version"], { cwd: temporaryDirectory("version-") })
  before = stdout.trim().replace(/^relay v/, "")
}, 60_000)
afterAll(async () => {
  // If a test didn't end, this prints the output of its relays.
  for (const one of running) console.error(one.stdout() + one.stderr())
  await Promise.all([...running].map((one) => one.kill("SIGKILL")))
})

/** Text in the log for each stream that a relay takes over. */
const takeover = "has taken over the stream"

/** Waits until a receiver has all of these events. */
const arrived = (receiver: Receiver, numbers: Iterable<number>): Promise<void> => {
  const wanted = new Set(receiver.missing(numbers))
  if (wanted.size === 0) return Promise.resolve()
  return new Promise((resolve) => {
    receiver.onArrival = ({ number }) => {
      wanted.delete(number)
      if (wanted.size === 0) resolve()
    }
  })
}

/** Every fourth event has a type that one relay delivers in the order of its account. */
const bodyOf = (number: number): string =>
  number % 4 === 0 ? usual(number).replace("appointment.created", "appointment.rescheduled") : usual(number)

/** Three sinks until `open`: the first rejects some events, the second is unavailable, and the third keeps an order. */
const receivers = () => {
  const [live, late, ordered] = [new Receiver(), new Receiver(), new Receiver()]
  live.answer = (number) => (number % 10 === 3 ? new Response(null, { status: 422 }) : undefined)
  late.answer = () => new Response(null, { status: 503 })
  const all = [live, late, ordered]
  for (const one of all) one.bodyOf = bodyOf
  const http = ({ url }: Receiver) => ({ type: "http", url })
  return {
    config: {
      sinks: { live: http(live), late: http(late), ordered: { ...http(ordered), order: "key" } },
      routes: [
        { name: "in order", match: "appointment.rescheduled", to: ["ordered"] },
        { name: "the rest", match: "appointment.created", to: ["live", "late"] },
      ],
    },
    open: () => {
      for (const one of all) one.answer = () => undefined
    },
    /** Waits until the sinks have all accepted events unchanged. `replay` replays the first sink's dead letters. */
    haveAll: async (accepted: Iterable<number>, replay: () => Promise<{ readonly code: number }>) => {
      const numbers = [...accepted]
      const plain = numbers.filter((number) => number % 4 !== 0)
      // An event that was rejected last may become a dead letter after the replay, so this repeats the replay.
      while (live.missing(plain).length > 0) expect((await replay()).code).toBe(0)
      await Promise.all([arrived(live, plain), arrived(late, plain)])
      await arrived(
        ordered,
        numbers.filter((number) => number % 4 === 0),
      )
      expect(all.map(({ altered }) => altered)).toEqual([0, 0, 0])
    },
    close: () => Promise.all(all.map((one) => one.goAway())),
  }
}

/** One relay's place on a machine: its directory, its config and its addresses, for any version. */
const placeOf = async (config: object, journal?: object) => {
  const cwd = temporaryDirectory("upgrade-")
  const [port, admin] = [await freePort(), await freePort()]
  const listen = `127.0.0.1:${port}`
  const file = join(cwd, "journal.db")
  /** Writes its config. */
  const use = (journal: object) => {
    const settings = {
      listen,
      admin: { listen: `127.0.0.1:${admin}` },
      journal,
      webhooks: { scheduling: { path, secrets: [{ name: "main", value: secret }] } },
      delivery: { retry: { initial: "200 millis", max: "1 second" } },
      ...config,
    }
    writeFileSync(join(cwd, "relay.config.json"), JSON.stringify(settings))
  }
  use(journal ?? { path: file })
  const options = (of?: NextRelay) => ({ cwd, ...(of && { binary: of.binary }) })
  const sender = new Sender(listen)
  sender.bodyOf = bodyOf
  return {
    cwd,
    file,
    use,
    sender,
    start: async (of?: NextRelay): Promise<Relay> => {
      const started = await startRelay("relay.config.json", options(of))
      running.add(started)
      void started.exited.then(() => running.delete(started))
      return started
    },
    run: (args: ReadonlyArray<string>, of?: NextRelay) => relay(args, options(of)),
  }
}
type Place = Awaited<ReturnType<typeof placeOf>>

/**
 * Sends about 200 events a second, so that the machine is not overloaded. Each event goes to one place after the other
 * until it is accepted.
 */
const loadOn = (places: ReadonlyArray<Place>) => {
  let sent = 0
  let isOver = false
  const accepted = new Set<number>()
  const waiting: Array<() => void> = []
  const connection = async () => {
    while (!isOver) {
      const number = sent++
      for (let turn = number; ; turn++) {
        if ((await places[turn % places.length]?.sender.send(number)) === 202) break
        await Bun.sleep(5)
      }
      accepted.add(number)
      for (const wake of waiting.splice(0)) wake()
      await Bun.sleep(20)
    }
  }
  const over = Promise.all(Array.from({ length: 4 }, connection))
  const until = async (holds: () => boolean): Promise<void> => {
    while (!holds()) await new Promise<void>((resolve) => waiting.push(resolve))
  }
  return {
    accepted,
    /** Waits until `count` more events were accepted, by the given place or by any. */
    more: (count: number, place?: Place) => {
      const acknowledged = place?.sender.acknowledged ?? accepted
      const wanted = acknowledged.size + count
      return until(() => acknowledged.size >= wanted)
    },
    end: async () => {
      isOver = true
      await over
    },
  }
}

const refusal = (journal: string) =>
  `relay ${next.version} wrote ${journal}, which is too new for this relay (${before}): run relay ${next.version} or later, or restore a backup from before the upgrade`

describe("an upgrade of a journal in a file, under load", () => {
  test("loses nothing, and neither does a downgrade with the next relay's salvage", async () => {
    const sinks = receivers()
    const place = await placeOf(sinks.config)
    const load = loadOn([place])
    const first = await place.start()
    await load.more(40)
    expect(await first.kill()).toBe(0)
    const second = await place.start(next)
    await load.more(40)
    expect(await second.kill()).toBe(0)

    for (const [code, ...args] of [
      [74, "run"],
      [74, "journal", "check"],
      [74, "journal", "backup", "backup.db"],
      [74, "journal", "salvage", "owed.ndjson"],
    ] as const) {
      const refused = await place.run(args)
      expect([args, refused.code]).toEqual([args, code])
      expect(refused.stdout + refused.stderr).toContain(refusal(`the journal ${place.file}`))
    }
    expect((await place.run(["journal", "salvage", "owed.ndjson"], next)).code).toBe(0)
    expect(Bun.spawnSync(["sh", "-c", "mkdir newer && mv journal.db* newer/"], { cwd: place.cwd }).exitCode).toBe(0)
    const back = await place.start()
    await load.more(40)
    expect((await place.run(["journal", "import", "owed.ndjson"])).code).toBe(0)
    await load.end()
    sinks.open()
    await sinks.haveAll(load.accepted, () => place.run(["dlq", "replay", "--sink", "live"]))
    expect(await back.kill()).toBe(0)
    await sinks.close()
  }, 60_000)
})

suiteUnless(reasonToSkip(), "a rolling upgrade of relays on one PostgreSQL, under load", () => {
  let server: Postgres
  beforeAll(async () => {
    server = await makePostgres()
  }, 60_000)
  afterAll(() => server.stop())

  test("loses nothing, and neither does a downgrade: the old relays deliver next to the new ones, and don't start again", async () => {
    const sinks = receivers()
    const journalOf = (name: string) => ({ type: "postgres", url: server.url, name })
    const [a, b] = [await placeOf(sinks.config, journalOf("a")), await placeOf(sinks.config, journalOf("b"))]
    const load = loadOn([a, b])
    const [first, second] = [await a.start(), await b.start()]
    await load.more(40)
    expect(await first.kill()).toBe(0)
    const third = await a.start(next)
    // The schema is the next version's. The old relay still accepts deliveries, and answers operators.
    await Promise.all([load.more(40, a), load.more(40, b)])
    expect(second.stdout() + second.stderr()).not.toMatch(/ERROR/)
    for (const args of [
      ["status"],
      ["events", "--limit", "5"],
      ["dlq", "list"],
      ["replay", "--to", "late", "--since", "1 hour"],
    ]) {
      const { code, stdout, stderr } = await b.run(args)
      expect([args, code === 0 ? "" : stdout + stderr]).toEqual([args, ""])
    }
    // The old relay takes over the next version's streams. It already has the first relay's if it was the faster of the
    // two.
    const taken = second.stdout().split(takeover).length + second.stderr().split(takeover).length - 1
    expect(await third.kill()).toBe(0)
    await second.prints(new RegExp(`(${takeover}[\\s\\S]*){${taken}}`))
    await load.more(40, b)
    expect(await second.kill()).toBe(0)
    const refused = await b.run(["run"])
    expect([refused.code, refused.stdout + refused.stderr]).toEqual([
      74,
      expect.stringContaining(refusal("the schema relay")),
    ])
    const all = [await b.start(next), await a.start(next)]
    await Promise.all([load.more(40, a), load.more(40, b)])

    // Downgrade: the old relays start with a new schema, and import the events that the next ones have not delivered.
    for (const one of all) expect(await one.kill()).toBe(0)
    const lines = (procedures.get("Downgrading several relays") ?? "").trim().split("\n")
    expect(lines.length).toBe(2)
    for (const line of lines) {
      const { code, stdout, stderr } = await a.run(line.split(" ").slice(1), next)
      expect([line, code === 0 ? "" : stdout + stderr]).toEqual([line, ""])
    }
    const back = await Promise.all(
      [a, b].map((place, index) => {
        place.use({ ...journalOf(index === 0 ? "a" : "b"), schema: "relay_before" })
        return place.start()
      }),
    )
    await Promise.all([load.more(40, a), load.more(40, b)])
    expect((await a.run(["journal", "import", "owed.ndjson"])).code).toBe(0)
    await load.end()
    sinks.open()
    await sinks.haveAll(load.accepted, () => a.run(["dlq", "replay", "--sink", "live"]))
    for (const one of back) expect(await one.kill()).toBe(0)
    await sinks.close()
  }, 120_000)
})
