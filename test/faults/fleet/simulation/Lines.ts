/** Fleets by seed, one after the other; the first three that fail are reported. */
import { makePostgres, missing } from "../../../parts/Postgres.ts"
import type { Line, Mutant, Outcome } from "../../Line.ts"
import { skipped } from "../../relay/Subject.ts"
import { simulate } from "./Fleet.ts"

const reported = 3
const line = "fleet-simulation"

/** Fleets on so many databases. */
const fleets = (name: string, fault: string, databases: number, seeds: { normal: number; long: number }): Line => ({
  name,
  fault,
  run: async ({ long, seed }): Promise<Outcome> => {
    const lacking = missing()
    if (lacking !== undefined) return skipped(lacking)
    const postgres = await makePostgres()
    const broken: Array<string> = []
    const reports: Array<string> = []
    let [rounds, acknowledged, lost, repeated, takeovers, meanwhile] = [0, 0, 0, 0, 0, 0]
    let [renames, promotions, restores, splits, operations] = [0, 0, 0, 0, 0]
    for (; rounds < (long ? seeds.long : seeds.normal) && broken.length < reported; rounds++) {
      const verdict = await simulate(postgres.url, seed + rounds, databases)
      acknowledged += verdict.acknowledged
      lost += verdict.lost
      repeated = Math.max(repeated, verdict.repeated)
      takeovers += verdict.takeovers
      meanwhile += verdict.meanwhile
      renames += verdict.renames
      promotions += verdict.promotions
      restores += verdict.restores
      splits += verdict.splits
      operations += verdict.operations
      for (const text of verdict.broken) broken.push(`seed ${seed + rounds}: ${text}`)
      for (const text of verdict.reports) reports.push(`seed ${seed + rounds}, ${text}`)
      if (verdict.lost > 0) broken.push(`seed ${seed + rounds}: ${verdict.lost} lost`)
    }
    await postgres.stop()
    const notes = [
      `${takeovers} streams taken over, ${renames} renames, ${promotions} promotions, ${restores} restores, ${splits} splits, ${operations} operations`,
    ]
    if (databases > 1) {
      notes.push(`${meanwhile} acknowledged while another database was away`)
      if (meanwhile === 0) broken.push("nothing was acknowledged while another database was away")
    }
    return { rounds, acknowledged, lost, duplicates: repeated, broken, notes: [...notes, ...reports] }
  },
})

export const lines: ReadonlyArray<Line> = [
  fleets(line, "fleets: crashes, standstills, partitions, clocks", 1, { normal: 10, long: 500 }),
  fleets("fleet-shards", "fleets on two databases, and a third", 2, { normal: 4, long: 250 }),
]

const postgres = (file: string): string => `src/journal/postgres/${file}.ts`

export const mutants: ReadonlyArray<Mutant> = [
  {
    line,
    gone: "a relay asks whether a stream is still its own before each attempt",
    file: postgres("lanes/StreamState"),
    find: "return !this.isLost && this.owner.isAlive() && this.owner.askedAt() >= this.notBefore",
    replace: "return true",
    seed: 5,
  },
  {
    line,
    gone: "events of a sink with an order go to the shared stream",
    file: postgres("append/StreamWriter"),
    find: "const isShared = sinks.some((sink) => this.#exclusive.has(sink))",
    replace: "const isShared = sinks.length < 0",
    seed: 1,
  },
  {
    line,
    gone: "an append under an epoch that has passed is not stored",
    file: postgres("append/Commits"),
    find: "isOwned} FOR SHARE)",
    replace: 'isOwned.replace("epoch = ($2::text[])[1]::bigint", "true")} FOR SHARE)',
    seed: 3,
  },
  {
    line,
    gone: "an append whose answer was lost is looked for by its own identity",
    file: postgres("tables/DatabaseSchema"),
    find: "l.received_to = a_to AND l.commit = a_commit",
    replace: "false",
    seed: 1,
  },
  {
    line,
    gone: "what a relay knew before a promotion is not stored on the promoted server",
    file: postgres("lanes/StreamState"),
    find: " AND epoch >> 32 = timeline()",
    replace: "",
    seed: 1,
  },
  {
    line,
    gone: "what a relay knew before is not stored on a database that went back since",
    file: postgres("lanes/StreamState"),
    find: " AND knows(($2::text[])[2:])",
    replace: "",
    seed: 2,
  },
  {
    line,
    gone: "a sign of life shows that the database went back",
    file: postgres("fleet/Fleet"),
    find: "this.#isBehind ||= this.#showsEarlierState(news)",
    replace: "this.#isBehind ||= false",
    seed: 2,
  },
  {
    line,
    gone: "what is appended under a former name belongs to the lane that has another name since",
    file: postgres("tables/LaneNames"),
    find: "aliases.set(from, { to, after: 0 })",
    replace: "aliases",
    seed: 1,
  },
  {
    line,
    gone: "a loss stays in the audit log when it was acknowledged",
    file: postgres("fleet/RedAlarm"),
    find: "yield* AuditTable.putNew(",
    replace: "void AuditTable.putNew(",
    seed: 1,
  },
  {
    line,
    gone: "a relay names the events that the database lost",
    file: postgres("fleet/RedAlarm"),
    find: "lost.events === 0 ? Effect.void",
    replace: "lost.events >= 0 ? Effect.void",
    seed: 5,
  },
  {
    line,
    gone: "a relay whose append failed for any reason is not ready",
    file: postgres("connection/WriteTrouble"),
    find: "!isOfData(append.error)) note(append.error)",
    replace: "!isOfData(append.error)) noteWrite(append.error)",
    seed: 1,
  },
  {
    line,
    gone: "the others of a commit are stored if the database can't hold the text of one event",
    file: postgres("append/Appends"),
    find: "const isSplit = count > 1 &&",
    replace: "const isSplit = count < 0 &&",
    seed: 1,
  },
  {
    line,
    gone: "a report that can't be read counts for nothing",
    file: postgres("fleet/Membership"),
    find: "report: decodeReport(member.report)",
    replace: "report: { isWhole: true, ...(member.report as object) } as MemberReport",
    seed: 1,
  },
  {
    line,
    gone: "a reload does not wait for a stream that was lost",
    file: "src/delivery/SinkChanges.ts",
    find: "schedule: openEvery, while: isNotFenced",
    replace: "schedule: openEvery",
    seed: 3,
  },
]
