/**
 * The `status` of each relay compared with SQL on the tables: while a relay is killed, while another takes over,
 * without the database, after a failover, and when its disk is full.
 */

import { afterAll, beforeAll, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { chownSync, mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { health } from "../../src/admin/status/Health.ts"
import type { Status } from "../../src/admin/status/Status.ts"
import { type Figures, figuresOf, journalSql, lanesSql } from "../journal/postgres/figures.ts"
import { until } from "../lib/kit.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { freePort } from "../lib/port.ts"
import { root } from "../lib/programs.ts"
import { type Relay, relay, startRelay } from "../lib/relay.ts"
import { makePostgres, type Postgres, reasonToSkip, user } from "../parts/Postgres.ts"
import { runAs } from "../parts/PostgresBinaries.ts"

const lacking = process.env.RELAY_PARTS === "1" ? reasonToSkip() : "it takes a minute, RELAY_PARTS=1 bun test runs it"
const config = join(root, "config/examples/fleet.json")

interface Member {
  readonly relay: Relay
  readonly deliveries: string
  readonly admin: string
}

/** A receiver that rejects three events and then fails, so that events of all kinds wait. */
const failing = () => {
  let asked = 0
  return Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => new Response("", { status: asked++ < 3 ? 413 : 500 }),
  })
}

const directory = (): string => {
  const cwd = mkdtempSync(join(tmpdir(), "relay-figures-"))
  mkdirSync(join(cwd, "data"))
  return cwd
}

const startMember = async (name: string, cwd: string, database: string, backoffice: number): Promise<Member> => {
  const [port, admin] = [await freePort(), await freePort()]
  const env = {
    RELAY_PORT: String(port),
    RELAY_ADMIN_PORT: String(admin),
    RELAY_NAME: name,
    RELAY_DATABASE: database,
    BACKOFFICE_URL: `http://127.0.0.1:${backoffice}/events`,
  }
  const started = await startRelay(config, { cwd, env })
  return { relay: started, deliveries: `http://127.0.0.1:${port}`, admin: `http://127.0.0.1:${admin}` }
}

const send = (to: Member, type: string, count: number, cwd: string) =>
  relay(["trigger", type, "--count", String(count), "--url", `${to.deliveries}/hooks/scheduling`, "-c", config], {
    cwd,
  })

const statusOf = async ({ admin }: Member): Promise<Status> =>
  (await (await fetch(`${admin}/api/v1/status`)).json()) as Status

const saidIn = ({ journal, lanes }: Status): Figures => ({
  accepted: journal.head,
  kept: journal.head + 1 - journal.tail,
  bytes: journal.usedBytes,
  lanes: Object.fromEntries(
    lanes.map(({ name, backlog, retrying, deadLetters }) => [name, { backlog, retrying, deadLetters }]),
  ),
})

const waitingIn = ({ fleet }: Status): number => (fleet?.relays ?? []).reduce((sum, { waiting }) => sum + waiting, 0)

/** Reads the tables. Returns the figures, and the time from which the oldest event of each lane waits. */
const counted = async (database: Postgres) => {
  const lanes = await database.sql(lanesSql)
  const figures = figuresOf(await database.sql(journalSql), lanes)
  const oldest = new Map(lanes.map(({ name, oldest }) => [String(name), Number(oldest ?? 0)]))
  return { figures, oldest }
}

const backlogOf = ({ lanes }: Figures): number => Object.values(lanes).reduce((sum, { backlog }) => sum + backlog, 0)

/** The figures in a relay's status and in the tables, and the ages in which they differ. */
const compared = async (member: Member, database: Postgres) => {
  const { figures, oldest } = await counted(database)
  const status = await statusOf(member)
  const ages = status.lanes.flatMap(({ name, oldestAt }) => {
    const held = oldest.get(name) ?? 0
    // A retrying event's age counts from its first attempt, and from its receipt while it is in flight.
    return Math.abs(oldestAt - held) < 2_000 ? [] : [{ name, oldestAt, held }]
  })
  return {
    said: { figures: saidIn(status), waiting: waitingIn(status), ages },
    held: { figures, waiting: backlogOf(figures), ages: [] },
  }
}

/** Checks that a relay's status equals the tables. */
const agree = async (member: Member, database: Postgres) => {
  const { said, held } = await compared(member, database)
  expect(said).toEqual(held)
  return held.figures
}

/** Waits until the status equals the tables. The ages of another relay's events arrive with its next heartbeat. */
const agreeSoon = async (member: Member, database: Postgres) => {
  await until(async () => {
    const { said, held } = await compared(member, database)
    return Bun.deepEquals(said, held)
  })
  return agree(member, database)
}

suiteUnless(lacking, "the status of two relays on one PostgreSQL", () => {
  const cwd = directory()
  const backoffice = failing()
  const members: Array<Member> = []
  let [primary, standby]: ReadonlyArray<Postgres> = []
  let url = ""
  beforeAll(async () => {
    primary = await makePostgres()
    standby = await primary.standby("synchronous")
    url = `postgres://${user.name}:${user.password}@${primary.address},${standby.address}/relay`
    for (const name of ["relay-1", "relay-2"]) members.push(await startMember(name, cwd, url, backoffice.port ?? 0))
  }, 60_000)
  afterAll(async () => {
    await Promise.all(members.map(({ relay }) => relay.kill("SIGKILL")))
    await standby?.stop()
    await primary?.stop()
    backoffice.stop(true)
    rmSync(cwd, { recursive: true, force: true })
  }, 60_000)
  const at = (index: number): Member => members[index] as Member
  const database = () => primary as Postgres

  test("warns of nothing as config/examples/fleet.json is shipped", async () => {
    for (const member of members) {
      await until(
        async () => (await statusOf(member)).fleet?.relays.every(({ configHash }) => configHash !== "") === true,
      )
      expect(health(await statusOf(member))).toEqual({ level: "ok", problems: [] })
    }
  })

  test("match the tables, from either relay", async () => {
    await fetch(`${at(0).admin}/api/v1/lanes/audit/pause`, { method: "POST" })
    await until(async () =>
      (await statusOf(at(1))).lanes.some(({ name, condition }) => name === "audit" && condition === "paused"),
    )
    for (const [index, count] of [11, 7].entries()) {
      await send(at(index), "client.updated", count, cwd)
      await send(at(index), "appointment.created", 20, cwd)
    }
    // All other events have failed once, so the figures don't change any more.
    await until(async () => {
      const { backoffice } = (await counted(database())).figures.lanes
      return backoffice?.deadLetters === 3 && backoffice.retrying === 37
    })
    const figures = await agreeSoon(at(0), database())
    expect(figures).toMatchObject({ accepted: 58, lanes: { audit: { backlog: 18 }, backoffice: { backlog: 37 } } })
    expect(await agreeSoon(at(1), database())).toEqual(figures)
  })

  test("match while a relay is killed and another takes over its streams", async () => {
    const before = await agreeSoon(at(1), database())
    await at(0).relay.kill("SIGKILL")
    const isOver = async () => {
      expect(await agree(at(1), database())).toEqual(before)
      const { fleet } = await statusOf(at(1))
      return fleet?.relays.find(({ isSelf }) => isSelf)?.streams.length === 3
    }
    await until(isOver)
    expect(await agree(at(1), database())).toEqual(before)
    members[0] = await startMember("relay-1", cwd, url, backoffice.port ?? 0)
    expect(await agreeSoon(at(0), database())).toEqual(before)
    expect(await agreeSoon(at(1), database())).toEqual(before)
  }, 60_000)

  test("show the last known state while the database is unavailable, and the current one after the failover", async () => {
    const before = await agreeSoon(at(1), database())
    await primary?.kill()
    await until(async () => {
      const status = await statusOf(at(1))
      const scraped = await fetch(`${at(1).admin}/metrics`)
      expect([saidIn(status), scraped.status]).toEqual([before, 200])
      return status.journal.answeredAt !== undefined
    })
    const away = await statusOf(at(1))
    expect(health(away).problems[0]).toMatchObject({ state: "not-ready" })
    expect(health(away).problems[0]?.lines.join()).toContain("PostgreSQL has not answered since")
    expect((await fetch(`${at(1).admin}/readyz`)).status).toBe(503)
    expect((await fetch(`${at(1).admin}/api/v1/events`)).status).toBe(503)
    await standby?.promote()
    await until(async () => (await fetch(`${at(1).admin}/readyz`)).status === 200)
    const promoted = standby as Postgres
    expect(await agreeSoon(at(1), promoted)).toEqual(before)
    expect(await agreeSoon(at(0), promoted)).toEqual(before)
  }, 60_000)
})

const mayMount = process.getuid?.() === 0 && spawnSync("which", ["mount", "umount"]).status === 0
const noMount = mayMount ? undefined : "only root can mount the small disk"

suiteUnless(lacking ?? noMount, "the status of a relay whose database has a full disk", () => {
  const cwd = directory()
  const disk = mkdtempSync(join(tmpdir(), "relay-small-"))
  const backoffice = failing()
  let database: Postgres
  let member: Member
  beforeAll(async () => {
    expect(spawnSync("mount", ["-t", "tmpfs", "-o", "size=48m", "relay-small", disk]).status).toBe(0)
    const place = join(disk, "space")
    mkdirSync(place)
    chownSync(place, runAs.uid ?? 0, runAs.gid ?? 0)
    database = await makePostgres()
    await database.sql(`CREATE TABLESPACE small LOCATION '${place}'`, "postgres")
    await database.sql("ALTER DATABASE relay SET TABLESPACE small", "postgres")
    member = await startMember("relay-1", cwd, database.url, backoffice.port ?? 0)
  }, 60_000)
  afterAll(async () => {
    await member?.relay.kill("SIGKILL")
    await database?.stop()
    spawnSync("umount", ["-l", disk])
    backoffice.stop(true)
    for (const path of [cwd, disk]) rmSync(path, { recursive: true, force: true })
  }, 60_000)

  test("fails readiness before it refuses, matches the tables, and accepts again once there is space", async () => {
    await fetch(`${member.admin}/api/v1/lanes/audit/pause`, { method: "POST" })
    await send(member, "client.updated", 5, cwd)
    await agreeSoon(member, database)
    const { bavail, bsize } = statfsSync(disk)
    writeFileSync(join(disk, "another-program"), Buffer.alloc(bavail * bsize, 1))
    await until(async () => (await send(member, "client.updated", 20, cwd)).stdout.includes(" 503"))
    expect((await fetch(`${member.admin}/readyz`)).status).toBe(503)
    const full = await statusOf(member)
    expect(health(full).problems.map(({ state }) => state)).toContain("journal-full")
    expect(full.journal.message).toContain("disk is full")
    expect((await fetch(`${member.admin}/readyz`)).status).toBe(503)
    await agree(member, database)
    rmSync(join(disk, "another-program"))
    await until(async () => (await fetch(`${member.admin}/readyz`)).status === 200)
    expect((await send(member, "client.updated", 5, cwd)).stdout.match(/^202 /gm)?.length).toBe(5)
    await agreeSoon(member, database)
  }, 60_000)
})
