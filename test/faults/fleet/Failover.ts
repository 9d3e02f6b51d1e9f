/**
 * The primary is killed under load and its standby promoted. With a synchronous standby nothing is lost. With an
 * asynchronous standby that was behind, the relays name the lost events and continue.
 */
import type { AuditPage } from "../../../src/admin/api/Api.ts"
import { seeded } from "../../lib/seeded.ts"
import { Cluster, type Following, type Postgres } from "../../parts/Postgres.ts"
import type { Line } from "../Line.ts"
import { eventually } from "../relay/Subject.ts"
import { names, over, Relays, seconds, underLoad } from "./Relays.ts"

const rounds = { normal: 1, long: 20 }
const limit = 10_000

/** The cluster of the line that runs. */
let cluster: Cluster

const relaysOn = (following: Following) => async (options: Parameters<typeof Relays.make>[0]) => {
  cluster = await Cluster.make(following)
  return Relays.make(options, { postgres: cluster.servers[0], url: () => cluster.url })
}

export const failover: Line = {
  name: "fleet-failover",
  fault: "the primary lost to a synchronous standby",
  run: over(async (relays, options) => {
    const broken: Array<string> = []
    const count = options.long ? rounds.long : rounds.normal
    let longest = 0
    for (let round = 1; round <= count; round++) {
      await underLoad(relays, async () => {
        await Bun.sleep(1_000)
        await cluster.failOver()
        const took = await relays.accepts(60)
        if (took === undefined) broken.push(`round ${round}: nothing is accepted a minute after the promotion`)
        else longest = Math.max(longest, took)
      })
      if (!(await relays.arrived(60))) broken.push(`round ${round}: not all came within a minute`)
      if (round < count) await cluster.turn("synchronous")
    }
    if (longest > limit) broken.push(`it flowed only ${seconds(longest)} after a promotion`)
    broken.push(...(await relays.troubles(limit / 1_000)))
    await cluster.stop()
    const notes = [`flowing ${seconds(longest)} after a promotion at most`]
    return { rounds: count, duplicates: relays.repeated, broken, notes }
  }, relaysOn("synchronous")),
}

/** The number of events that the relays name as lost: the audit log has each line of the alarm, which shows only some. */
const named = async (relays: Relays): Promise<number> => {
  const { records } = JSON.parse(await relays.subject("a").ask("/api/v1/audit?limit=1000")) as AuditPage
  const notes = new Set(records.map(({ note }) => note))
  return [...notes].reduce((sum, note) => sum + Number(/lost (\d+) events/.exec(note)?.[1] ?? 0), 0)
}

export const asynchronous: Line = {
  name: "fleet-failover-asynchronous",
  fault: "the primary lost to a standby that was behind",
  run: over(async (relays, options) => {
    const broken: Array<string> = []
    const count = options.long ? rounds.long : rounds.normal
    let [longest, lost, told] = [0, 0, 0]
    for (let round = 1; round <= count; round++) {
      const lostBefore = lost
      await underLoad(relays, async () => {
        await Bun.sleep(500)
        // Events accepted from now on are only in the primary's journal, and delivered nowhere.
        await cluster.leaveBehind()
        relays.answer = () => new Response(null, { status: 503 })
        await Bun.sleep(1_000)
        await cluster.failOver()
        const took = await relays.accepts(60)
        if (took === undefined) broken.push(`round ${round}: nothing is accepted a minute after the promotion`)
        else longest = Math.max(longest, took)
        await Bun.sleep(1_500)
        relays.speedUp()
      })
      await relays.settled()
      await relays.findElsewhere()
      told = await named(relays)
      lost = relays.missing.length
      if (lost === lostBefore) broken.push(`round ${round}: nothing was lost: this has shown nothing`)
      if (round < count) await cluster.turn("asynchronous")
    }
    await cluster.stop()
    if (longest > limit) broken.push(`it flowed only ${seconds(longest)} after a promotion`)
    if (told === 0) broken.push(`no relay says that anything was lost, and ${lost} were`)
    const notes = [`${lost} lost, ${told} named by the journal; flowing ${seconds(longest)} after a promotion at most`]
    return { rounds: count, duplicates: relays.repeated, lost: Math.max(0, lost - told), broken, notes }
  }, relaysOn("asynchronous")),
}

/** Every relay says that it can accept deliveries. */
const ready = (relays: Relays): Promise<boolean> =>
  eventually(async () => {
    const said = await Promise.all(
      names.map((name) =>
        relays
          .subject(name)
          .ask("/readyz", "GET", 2_000)
          .catch(() => "nothing"),
      ),
    )
    return said.every((text) => text.startsWith("ready"))
  }, 60)

export const promoted: Line = {
  name: "fleet-failover-behind",
  fault: "the same with sinks that work, or fail now and then",
  run: over(async (relays, options) => {
    const random = seeded(options.seed)
    const broken: Array<string> = []
    const count = options.long ? rounds.long : rounds.normal
    let [before, after] = [0, 0]
    for (let round = 1; round <= count; round++) {
      const isFlaky = round % 2 === 0
      relays.fails = () => isFlaky && random() < 0.2
      let accepted: ReadonlySet<number> = new Set()
      await underLoad(relays, async () => {
        await Bun.sleep(500)
        await cluster.leaveBehind()
        await Bun.sleep(500 + random() * 1_500)
        await cluster.failOver()
        if (!(await ready(relays))) broken.push(`round ${round}: not all are ready a minute after the promotion`)
        accepted = new Set(relays.accepted)
        await Bun.sleep(3_000)
      })
      await relays.settled()
      await relays.findElsewhere()
      const missing = relays.missing
      const late = missing.filter((number) => !accepted.has(number))
      after += late.length
      before = missing.length - after
      if (round < count) await cluster.turn("asynchronous")
    }
    const told = await named(relays)
    await cluster.stop()
    if (told === 0) broken.push("no relay says that the database lost anything")
    const notes = [`${before} that the database lost did not arrive, ${told} named by the journal`]
    return { rounds: count, duplicates: relays.repeated, lost: after + Math.max(0, before - told), broken, notes }
  }, relaysOn("asynchronous")),
}

const rows = async (server: Postgres): Promise<number> => {
  const [row] = await server.sql("SELECT count(*)::int AS count FROM relay.log")
  return Number(row?.count)
}

export const split: Line = {
  name: "fleet-split",
  fault: "the primary and a relay frozen while the standby is promoted, until both come back",
  run: over(async (relays, options) => {
    const broken: Array<string> = []
    const count = options.long ? rounds.long : rounds.normal
    for (let round = 1; round <= count; round++) {
      const [primary, standby] = cluster.servers
      const accepts = (name: "a" | "b") =>
        eventually(async () => (await relays.subject(name).sender.send()) === 202, 60)
      await underLoad(relays, async () => {
        await Bun.sleep(500)
        relays.signal("a", "SIGSTOP")
        primary.freeze()
        await standby.promote()
        if (!(await accepts("b"))) broken.push(`round ${round}: nothing is accepted a minute after the promotion`)
        primary.thaw()
        relays.signal("a", "SIGCONT")
        if (!(await accepts("a"))) broken.push(`round ${round}: the relay that was frozen accepts nothing`)
        const isLeft = async () => {
          const before = await rows(primary)
          await Bun.sleep(2_000)
          return (await rows(primary)) === before
        }
        if (!(await eventually(isLeft, 20))) broken.push(`round ${round}: a relay still writes to the former primary`)
      })
      await relays.settled()
      // Until it notices the promotion, the relay that was frozen accepts events at the former primary.
      await relays.findElsewhere()
      if (round < count) await cluster.turn("asynchronous")
    }
    const told = await named(relays)
    const lost = relays.missing.length
    await cluster.stop()
    const notes = [`${lost} lost, ${told} named by the journal`]
    return { rounds: count, duplicates: relays.repeated, lost: Math.max(0, lost - told), broken, notes }
  }, relaysOn("asynchronous")),
}
