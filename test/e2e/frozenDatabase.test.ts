/**
 * PostgreSQL is frozen while operators query the relay. Every process of the server is stopped, so it accepts
 * connections and queries, and never answers.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import type { Status } from "../../src/admin/status/Status.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { freePort } from "../lib/port.ts"
import { root } from "../lib/programs.ts"
import { type Relay, relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { makePostgres, type Postgres, reasonToSkip } from "../parts/Postgres.ts"

const lacking =
  process.env.RELAY_PARTS === "1" ? reasonToSkip() : "it takes half a minute, RELAY_PARTS=1 bun test runs it"
const config = join(root, "config/examples/fleet.json")

suiteUnless(lacking, "a relay whose PostgreSQL is frozen", () => {
  const cwd = temporaryDirectory("frozen-database-")
  mkdirSync(join(cwd, "data"))
  let database: Postgres
  let running: Relay
  let env: Readonly<Record<string, string>>
  let admin = ""

  beforeAll(async () => {
    database = await makePostgres()
    const [port, adminPort] = [await freePort(), await freePort()]
    env = {
      RELAY_PORT: String(port),
      RELAY_ADMIN_PORT: String(adminPort),
      RELAY_NAME: "relay-1",
      RELAY_DATABASE: database.url,
      BACKOFFICE_URL: "http://127.0.0.1:1/events",
    }
    admin = `http://127.0.0.1:${adminPort}`
    running = await startRelay(config, { cwd, env })
  }, 60_000)
  afterAll(async () => {
    database?.thaw()
    await running?.kill("SIGKILL")
    await database?.stop()
  }, 60_000)

  const ask = (...args: ReadonlyArray<string>) => relay([...args, "-c", config], { cwd, env })
  /**
   * Sends a request like a scraper or a load balancer. It waits 2.5 s, less than the 3 s that PostgreSQL has to let the
   * relay log in.
   */
  const get = async (path: string) => {
    const answer = await fetch(`${admin}${path}`, { signal: AbortSignal.timeout(2_500) })
    return { status: answer.status, text: await answer.text() }
  }
  const isSilent = async (): Promise<boolean> => {
    const { text } = await get("/api/v1/status")
    return (JSON.parse(text) as Status).journal.answeredAt !== undefined
  }

  test("answers from memory without waiting, from the moment at which the database freezes", async () => {
    const to = ["--url", `http://127.0.0.1:${env.RELAY_PORT}/hooks/scheduling`]
    expect((await ask("trigger", "client.updated", "--count", "3", ...to)).code).toBe(0)
    database.freeze()
    do {
      expect((await get("/healthz")).status).toBe(200)
      expect((await get("/metrics")).text).toContain("relay_journal_bytes")
    } while (!(await isSilent()))
    expect(await get("/readyz")).toMatchObject({ status: 503, text: expect.stringContaining("PostgreSQL has not") })
    expect((await get("/metrics")).text).toContain("relay_ready 0\n")
  })

  test("names the database in status, events and explain, and never says that the relay hangs", async () => {
    const status = await ask("status")
    expect([status.code, status.stdout]).toEqual([1, expect.stringContaining("PostgreSQL has not answered since")])
    for (const args of [["events"], ["explain", "evt_unknown"], ["dlq", "list"], ["lanes", "pause", "audit"]]) {
      const { code, stderr } = await ask(...args)
      expect([args, code, stderr]).toEqual([args, 1, expect.stringContaining("PostgreSQL has not answered since")])
    }
  })

  test("is named by doctor, by validate, and by another relay that can't start", async () => {
    const why = `PostgreSQL at ${database.address}: it did not answer`
    for (const command of ["doctor", "validate"]) {
      const { code, stdout } = await ask(command)
      expect([command, code, stdout]).toEqual([command, 1, expect.stringContaining(why)])
    }
    const other = {
      RELAY_NAME: "relay-2",
      RELAY_PORT: String(await freePort()),
      RELAY_ADMIN_PORT: String(await freePort()),
    }
    const { code, stderr } = await relay(["run", "-c", config], { cwd, env: { ...env, ...other } })
    expect([code, stderr]).toEqual([74, expect.stringContaining(why)])
  }, 60_000)

  test("is well again as soon as it answers", async () => {
    database.thaw()
    while ((await get("/readyz")).status !== 200) await Bun.sleep(20)
    expect((await ask("status")).stdout).not.toContain("has not answered")
    expect((await ask("events")).stdout.match(/client\.updated/g)?.length).toBe(3)
  })
})
