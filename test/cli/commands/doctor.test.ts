/**
 * `relay doctor`: its findings about each part, and the whole command from its arguments to its exit code on this
 * machine.
 */
import { afterAll, describe, expect, test } from "bun:test"
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Layer, Redacted, Result } from "effect"
import { render } from "../../../src/cli/commands/doctor.ts"
import {
  certificates,
  few,
  finder,
  judge,
  port,
  room,
  secrets,
  sync,
  time,
} from "../../../src/cli/reports/doctorFindings.ts"
import type { Webhook } from "../../../src/config/Config.ts"
import * as SqliteJournal from "../../../src/journal/sqlite/SqliteJournal.ts"
import { volatility } from "../../../src/runtime/FileSystem.ts"
import { ServeError } from "../../../src/runtime/Runtime.ts"
import { lane, start } from "../../admin/fixture.ts"
import { webhook as webhookOf } from "../../ingest/fixture.ts"
import { optionsAt } from "../../journal/samples.ts"
import { relayConfig } from "../../lib/activeConfig.ts"
import { it } from "../../lib/effect.ts"
import { freePort } from "../../lib/port.ts"
import { serve } from "../../sinks/receiver.ts"
import { cli } from "../harness.ts"

const directory = mkdtempSync(join(tmpdir(), "relay-doctor-"))
afterAll(() => rmSync(directory, { recursive: true }))

const canary = "canary-secret-0451"
const gib = 1024 ** 3
const day = 86_400_000
const now = Date.UTC(2026, 10, 21)

let files = 0

/** A healthy config, except for the changes. Nothing listens on its ports. */
const config = async (changes: object = {}): Promise<string> => {
  const own = join(directory, String(files++))
  mkdirSync(own)
  const base = {
    listen: `127.0.0.1:${await freePort()}`,
    admin: { listen: `127.0.0.1:${await freePort()}` },
    journal: { path: join(own, "journal.db"), maxSize: "1 MiB", minFree: "1 MiB" },
    webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: canary }] } },
    sinks: { audit: { type: "file", path: join(own, "audit.ndjson") } },
    routes: [{ name: "everything", match: "**", to: "audit" }],
  }
  const file = join(own, "config.json")
  writeFileSync(file, JSON.stringify({ ...base, ...changes }))
  return file
}

/** Returns the findings of a run, by part and name. */
const examine = async (file: string) => {
  const { code, stdout, stderr } = await cli(["doctor", "--json", "-c", file])
  expect(stdout + stderr).not.toContain(canary)
  const { ok, findings } = JSON.parse(stdout)
  expect([code, stderr]).toEqual([ok ? 0 : 1, ""])
  const all: ReadonlyArray<ReturnType<ReturnType<typeof finder>>> = findings
  const of = (part: string, name?: string) => all.filter((one) => one.part === part && one.name === (name ?? one.name))
  return { code, all, of }
}

/** Something else at a port. */
const holding = (port: number) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const server = createServer((_, response) => response.writeHead(200).end("hello"))
      await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve))
      return server
    }),
    (server) => Effect.sync(() => server.close()),
  )

// Concurrently, because each run watches the clock for half a second.
describe.concurrent("doctor", () => {
  test("prints one line per check of a healthy set-up, and leaves nothing behind", async () => {
    const file = await config()
    const before = readdirSync(join(file, ".."))
    const { code, stdout, stderr } = await cli(["doctor", "-c", file])
    expect([code, stderr]).toEqual([0, ""])
    for (const line of [
      /config +\S+ +valid/,
      /sink +audit +reached/,
      // A slow disk gets a warning here, so this test accepts any time.
      /disk .* a sync takes [\d.]+ ms/,
      /disk .* free, enough for a journal of 1\.0 MiB/,
      /clock +time +20\d\d-/,
      /port +listen +127\.0\.0\.1:\d+ is free/,
      /port +admin\.listen +127\.0\.0\.1:\d+ is free/,
      /relay +status +not running/,
      /secret +scheduling +1 secret, none about to expire/,
    ]) {
      expect(stdout).toMatch(line)
    }
    expect(readdirSync(join(file, "..")).filter((name) => name !== "audit.ndjson")).toEqual(before)
  })

  it.live("lists all problems together, worst first, and exits 1", function* () {
    const port = yield* Effect.promise(freePort)
    yield* holding(port)
    const notADirectory = join(directory, "file")
    writeFileSync(notADirectory, "")
    const file = yield* Effect.promise(() =>
      config({
        listen: `127.0.0.1:${port}`,
        journal: { path: join(notADirectory, "journal.db") },
        webhooks: {
          scheduling: { path: "/h", secrets: [{ name: "a", value: canary, expires: "2026-01-01T00:00:00Z" }] },
        },
        sinks: { audit: { type: "http", url: `http://127.0.0.1:1/${canary}` } },
      }),
    )
    const { code, all, of } = yield* Effect.promise(() => examine(file))
    expect(code).toBe(1)
    const wrong = all.filter(({ verdict }) => verdict === "wrong")
    expect(all.slice(0, wrong.length)).toEqual(wrong)
    expect(wrong.map(({ part }) => part).toSorted()).toEqual(["disk", "port", "secret", "sink"])
    expect(of("sink")[0]?.message).toContain("http://127.0.0.1:1 can't be reached")
    expect(of("port", "listen")[0]?.message).toContain(`127.0.0.1:${port} is taken by process ${process.pid} (`)
    expect(of("disk")[0]?.message).toContain(`the journal's directory ${notADirectory} is a file, not a directory`)
    expect(of("config")[0]).toMatchObject({ verdict: "warning", message: expect.stringContaining("relay validate") })
    const text = yield* Effect.promise(() => cli(["doctor", "-c", file]))
    expect(text.code).toBe(1)
    expect(text.stderr).toContain("sink audit")
    expect(text.stdout).toStartWith("  wrong")
  })

  test("shows when each certificate expires, and its problems", async () => {
    const pem = (file: string) => join(import.meta.dir, "../../e2e/http/tls", file)
    const tls = { certificate: pem("localhost.pem"), key: pem("localhost.key.pem") }
    const sinks = { audit: { type: "http", url: "http://127.0.0.1:1", tls: { ca: "no.pem" } } }
    const { of } = await examine(await config({ tls, sinks }))
    expect(of("certificate", "tls.certificate")).toMatchObject([
      { verdict: "ok", message: expect.stringMatching(/^localhost, expires in \d+ d$/) },
    ])
    expect(of("certificate", "sinks.audit.tls.ca")).toMatchObject([
      { verdict: "wrong", message: expect.stringContaining("the file no.pem can't be read: there is no such file") },
    ])
    const day = 86_400_000
    const one = { key: "tls.certificate", subject: "a", notBefore: now - 80 * day, notAfter: now + 10 * day }
    const inUse = relayConfig({ certificates: [{ ...one, fingerprint: "AA" }] })
    expect(certificates(inUse, [], now)).toMatchObject([
      { verdict: "warning", message: expect.stringMatching(/^a, expires in 10 d: renew/) },
    ])
    const chain = { message: "its issuer is unknown", hint: "append it", isSure: false }
    const alone = relayConfig({ certificates: [{ ...one, notAfter: now + 90 * day, fingerprint: "AA", chain }] })
    expect(certificates(alone, [], now)).toMatchObject([
      { verdict: "warning", message: "a, expires in 90 d; its issuer is unknown: append it" },
    ])
  })

  it.live("shows a sink's advice without counting it as a failure", function* () {
    const { url } = yield* serve((_, response) => response.writeHead(204).end())
    const file = yield* Effect.promise(() => config({ sinks: { audit: { type: "http", url } } }))
    const { code, of } = yield* Effect.promise(() => examine(file))
    expect([code, of("sink")]).toEqual([0, [finder("sink", "audit")("ok", "reached")]])
  })

  it.live("asks the running relay, whose ports are held as they should be", function* () {
    const admin = yield* start({
      status: { health: "red", message: "2 events were lost.\nThe file was damaged." },
      lanes: [
        lane("lake", { condition: "misconfigured", message: "it answers 401: check the credentials" }),
        lane("audit", { deadLetters: 3 }),
      ],
    })
    const server = yield* Effect.acquireRelease(
      Effect.sync(() => Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: admin.handle })),
      (server) => Effect.promise(() => server.stop(true)),
    )
    const file = yield* Effect.promise(() => config({ admin: { listen: `127.0.0.1:${server.port}` } }))
    const { code, of } = yield* Effect.promise(() => examine(file))
    expect(code).toBe(1)
    expect(of("relay")).toEqual([
      finder("relay", "journal")(
        "wrong",
        "red. 2 events were lost. The file was damaged. What to do: relay journal check, then relay journal acknowledge",
      ),
      finder("relay", "lake")(
        "wrong",
        expect.stringMatching(/^misconfigured; .* check the credentials\. What to do: fix the sink/),
      ),
      finder("relay", "audit")("warning", "3 dead letters. What to do: relay dlq list --sink audit"),
      finder("relay", "status")("ok", expect.stringMatching(/ is up .* with 2 lanes/)),
    ])
    expect(of("port", "admin.listen")[0]).toMatchObject({
      verdict: "ok",
      message: expect.stringContaining("taken by the running relay"),
    })
    expect(of("port", "listen")[0]).toMatchObject({
      verdict: "warning",
      message: expect.stringContaining("free although the relay runs"),
    })
  })

  it.live("reports that the program at the admin address isn't a relay", function* () {
    const port = yield* Effect.promise(freePort)
    yield* holding(port)
    const file = yield* Effect.promise(() => config({ admin: { listen: `127.0.0.1:${port}` } }))
    const { of } = yield* Effect.promise(() => examine(file))
    expect(of("relay", "status")[0]).toMatchObject({
      verdict: "wrong",
      message: expect.stringMatching(/is not a relay of this version: .* version\. The address is admin\.listen of /),
    })
    expect(of("port", "admin.listen")[0]).toMatchObject({ verdict: "wrong" })
  })

  test("names an address that this machine doesn't have", async () => {
    const { of } = await examine(await config({ listen: "192.0.2.1:8080" }))
    expect(of("port", "listen")[0]).toMatchObject({
      verdict: "wrong",
      message: expect.stringContaining("192.0.2.1:8080 is not an address of this machine: choose one that it has"),
    })
  })

  it.live("finds the process that holds the journal if no relay of the config answers", function* () {
    const path = join(directory, "held", "journal.db")
    const file = yield* Effect.promise(() => config({ journal: { path, maxSize: "1 MiB", minFree: "1 MiB" } }))
    const free = yield* Effect.promise(() => examine(file))
    expect([free.code, free.of("journal")]).toEqual([
      0,
      [finder("journal", path)("ok", "held by no process that can be seen here")],
    ])
    yield* Layer.build(SqliteJournal.layer(optionsAt(path)))
    const held = yield* Effect.promise(() => examine(file))
    expect([held.code, held.of("journal")]).toEqual([
      1,
      [finder("journal", path)("wrong", expect.stringContaining(`process ${process.pid} (`))],
    ])
    const second = yield* Effect.flip(Layer.build(SqliteJournal.layer(optionsAt(path))))
    expect(second.message).toContain(`process ${process.pid} (`)
  })

  it.live("says that the journal's path holds another file, and leaves it unchanged", function* () {
    const path = join(directory, "notes.txt")
    writeFileSync(path, "notes of somebody")
    const file = yield* Effect.promise(() => config({ journal: { path, maxSize: "1 MiB", minFree: "1 MiB" } }))
    const { code, of } = yield* Effect.promise(() => examine(file))
    const message = `${path} is not a journal of the relay, and is left as it is; correct "journal.path"`
    expect([code, of("journal", "sqlite")]).toEqual([1, [finder("journal", "sqlite")("wrong", message)]])
    expect(readFileSync(path, "utf8")).toBe("notes of somebody")
    expect(readdirSync(directory).filter((name) => name.startsWith("notes.txt"))).toEqual(["notes.txt"])
  })

  it.live("requests client details from the API, and shows its answer", function* () {
    let status = 404
    const asked: Array<string> = []
    const { url } = yield* serve(({ headers, url }, response) => {
      asked.push(`${url} ${headers.authorization}`)
      response.writeHead(status).end("{}")
    })
    const baseUrl = url.replace(/\/$/, "")
    const found = Effect.fnUntraced(function* (baseUrl: string) {
      const clients = { baseUrl, headers: { authorization: canary } }
      const sinks = { audit: { type: "slack", url: "http://127.0.0.1:1", enrich: "deliver" } }
      const file = yield* Effect.promise(() => config({ clients, sinks }))
      const { of } = yield* Effect.promise(() => examine(file))
      return of("clients").map(({ verdict, message }) => [verdict, message])
    })
    expect(yield* found(baseUrl)).toEqual([["ok", "reached: it knows no client of a made-up id"]])
    expect(asked).toEqual([`/v1/clients/cli_relay_doctor ${canary}`])
    status = 401
    expect(yield* found(baseUrl)).toEqual([["wrong", 'the API answers 401; check "clients.headers"']])
    expect(yield* found("http://127.0.0.1:1")).toEqual([["wrong", expect.stringContaining("can't be reached")]])
  })
})

describe("of a process that holds a port while no relay answers it says", () => {
  const file = join(directory, "relay.config.json")
  const held = { what: "127.0.0.1:8080 is taken", otherwise: "use another port" }
  const relay = { words: "process 4711 (relay)", program: "/usr/bin/relay", isRelay: true, config: file }
  const of = (holder: Parameters<typeof judge>[0]) => judge(holder, file, held)

  test("that it is a relay of this or of another config, which may be stopped", () => {
    expect(of(relay)).toEqual(["ok", expect.stringContaining("(relay), a relay that runs this config")])
    expect(of({ ...relay, config: "/etc/other.json" })).toEqual([
      "wrong",
      expect.stringContaining("another config, /etc/other.json: stop it, or use another port"),
    ])
  })

  test("that it could not try a port below 1024, unless it runs as root", () => {
    const denied = Result.fail(new ServeError({ message: "it needs a privilege", isDenied: true }))
    const of = (seesAll: boolean) => {
      const known = { runs: false, file, seesAll }
      const { verdict, message } = port("listen", { host: "127.0.0.1", port: 443 }, denied, known)
      return [verdict, message]
    }
    expect(of(true)).toEqual(["wrong", "it needs a privilege"])
    expect(of(false)).toEqual(["warning", expect.stringContaining("was not checked: this user may not listen there")])
  })

  test("what this user can't see, without blaming a process", () => {
    for (const holder of [undefined, { ...relay, program: undefined }, { ...relay, config: undefined }]) {
      const [verdict, message] = of(holder)
      expect([verdict, message]).toEqual(["warning", expect.stringMatching(/can't be (seen|read) here/)])
      expect(message).not.toContain("stop it")
    }
    const other = { words: "process 1 (nginx)", program: "/usr/sbin/nginx", isRelay: false, config: undefined }
    expect(of(other)).toEqual([
      "wrong",
      "127.0.0.1:8080 is taken by process 1 (nginx), which runs /usr/sbin/nginx and is not a relay: use another port",
    ])
  })
})

describe("of the disk it says", () => {
  test("that a slow sync delays every answer", () => {
    expect(sync(3.14)).toEqual(["ok", "writable; a sync takes 3.1 ms"])
    expect(sync(240)).toEqual(["warning", expect.stringContaining("240 ms")])
  })

  test("whether there is enough space for the watermark and for the journal's growth", () => {
    const of = (free: number | undefined, used: number) => room({ free, used, maxSize: 10 * gib, minFree: 1 * gib })
    expect(of(0.5 * gib, 0)).toEqual(["wrong", expect.stringMatching(/^512\.0 MiB free.*journal\.minFree.*503/)])
    expect(of(10.5 * gib, 0)).toEqual(["warning", expect.stringMatching(/grow by 10\.0 GiB \(journal\.maxSize\)/)])
    expect(of(11 * gib, 0)[0]).toBe("ok")
    expect(of(3 * gib, 8 * gib)[0]).toBe("ok")
    expect(of(3 * gib, 7 * gib)[0]).toBe("warning")
    // The journal needs no more free space once it is as large as maxSize, or larger.
    expect(of(1 * gib, 12 * gib)[0]).toBe("ok")
    expect(of(undefined, 0)[0]).toBe("warning")
  })
})

/** A directory in memory, or `undefined` if this machine has none. */
const inMemory = ["/dev/shm"].find((at) => existsSync(at) && volatility(statfsSync(at).type, false) !== undefined)

describe("of the journal's file system it says", () => {
  test.if(inMemory !== undefined)("that a restart loses a journal in memory", async () => {
    const path = join(mkdtempSync(`${inMemory}/relay-doctor-`), "journal.db")
    try {
      const file = await config({ journal: { path, maxSize: "1 MiB", minFree: "1 MiB" } })
      const { code, of } = await examine(file)
      expect(code).toBe(0)
      expect(of("disk").filter(({ verdict }) => verdict === "warning")).toEqual([
        expect.objectContaining({
          message: "the journal is on a file system in memory (tmpfs), so a restart of the machine loses it",
        }),
      ])
    } finally {
      rmSync(join(path, ".."), { recursive: true })
    }
  })

  test("that a container's own file system goes with the container, and nothing about the same type elsewhere", () => {
    const [overlay, ext4, btrfs] = [0x794c_7630, 0xef53, 0x9123_683e]
    expect(volatility(overlay, true)).toContain("deleted with the container: mount a volume")
    expect([volatility(overlay, false), volatility(ext4, true), volatility(btrfs, true)]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
  })

  test("how many more files a disk with free space can hold, if these are few", () => {
    expect(few(15)).toEqual([["warning", expect.stringMatching(/^room for only 15 more files.*df -i/)]])
    expect([few(16), few(undefined)]).toEqual([[], []])
  })
})

describe("of the clock it says", () => {
  test("that a date before this program was written is wrong", () => {
    const { verdict, message } = time({ now: 0, drift: 0, synchronized: true })
    expect([verdict, message]).toEqual(["wrong", expect.stringContaining("1970-01-01")])
  })

  test("that it was set forward or back during the check", () => {
    for (const drift of [-4_000, 4_000]) {
      const { verdict, message } = time({ now, drift, synchronized: true })
      expect([verdict, message]).toEqual(["warning", expect.stringContaining(`${drift} ms`)])
    }
    expect(time({ now, drift: 3, synchronized: true }).verdict).toBe("ok")
  })

  test("whether a time server keeps it, and plainly when that can't be read", () => {
    expect(time({ now, drift: 0, synchronized: false })).toMatchObject({ verdict: "warning" })
    expect(time({ now, drift: 0, synchronized: true }).message).toContain("synchronized by a time server")
    expect(time({ now, drift: 0, synchronized: undefined }).message).toContain("can't be read here")
  })
})

const withSecrets = (secrets: Webhook["secrets"]): Webhook => webhookOf({ secrets })

describe("of the secrets it says", () => {
  const webhook = (...expires: ReadonlyArray<number | undefined>): Webhook =>
    withSecrets(
      expires.map((at, index) => ({
        name: `s${index}`,
        value: Redacted.make(canary),
        ...(at !== undefined && { expires: now + at }),
      })),
    )
  const of = (...expires: ReadonlyArray<number | undefined>) =>
    secrets([webhook(...expires)], now).map(({ name, verdict }) => `${verdict} ${name}`)

  test("which have expired, which will expire soon, and that none is left", () => {
    expect(of(undefined)).toEqual(["ok scheduling"])
    expect(of(undefined, 15 * day)).toEqual(["ok scheduling"])
    expect(of(undefined, -1, 3 * day)).toEqual(["warning scheduling/s1", "warning scheduling/s2"])
    expect(of(-1, -2)).toEqual(["wrong scheduling"])
    expect(secrets([webhook(3 * day)], now)[0]?.message).toBe("expires in 3 d: add its successor to the config")
    for (const successor of [undefined, 9 * day]) {
      const [first] = secrets([webhook(3 * day, successor)], now)
      expect(first?.message).toBe("expires in 3 d: the sender must sign with another by then")
    }
  })
})

test("relay doctor warns about a secret that can't be one, without showing it", () => {
  const secret = { name: "main", value: Redacted.make(`{ "secret": "${canary}" }`) }
  const found = secrets([withSecrets([secret, { ...secret, name: "old", expires: now - 1 }])], now)
  expect(found).toMatchObject([
    {
      verdict: "warning",
      name: "scheduling/main",
      message: "this is JSON, and the whole text counts as the secret: store the value alone: `jq -r .NAME` prints it",
    },
    { verdict: "warning", name: "scheduling/old", message: "has expired and verifies nothing: remove it" },
  ])
  expect(JSON.stringify(found)).not.toContain(canary)
})

test("relay doctor shows no control character of a message", () => {
  expect(render([finder("sink", "a\u001b[2J")("wrong", "b\u0007")], (_, text) => text)).not.toMatch(/\p{Cc}/u)
})
