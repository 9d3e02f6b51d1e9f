/** Fleets by seed, one after the other; the first three that fail are reported. */
import { makePostgres, missing } from "../../../parts/Postgres.ts"
import { isEnough, type Line, mutantsOf, type Outcome } from "../../Line.ts"
import { skipped } from "../../relay/Subject.ts"
import { simulate } from "./Fleet.ts"

const reported = 3
const line = "fleet-simulation"

/** Simulates one fleet per seed, on the given number of databases. */
const fleets = (name: string, fault: string, databases: number, seeds: { normal: number; long: number }): Line => ({
  name,
  fault,
  run: async (options): Promise<Outcome> => {
    const { long, seed } = options
    const lacking = missing()
    if (lacking !== undefined) return skipped(lacking)
    const postgres = await makePostgres()
    const broken: Array<string> = []
    const reports: Array<string> = []
    let [rounds, acknowledged, lost, repeated, takeovers, meanwhile] = [0, 0, 0, 0, 0, 0]
    let [renames, promotions, restores, splits, operations] = [0, 0, 0, 0, 0]
    const count = long ? seeds.long : seeds.normal
    for (; rounds < count && broken.length < reported && !isEnough(options, broken.length); rounds++) {
      const verdict = await simulate(postgres.url, seed + rounds, databases).catch((cause: unknown) => {
        throw new Error(`seed ${seed + rounds} broke the simulation`, { cause })
      })
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
      if (meanwhile === 0 && broken.length === 0)
        broken.push("nothing was acknowledged while another database was away")
    }
    return { rounds, acknowledged, lost, duplicates: repeated, broken, notes: [...notes, ...reports] }
  },
})

export const lines: ReadonlyArray<Line> = [
  fleets(line, "fleets: crashes, standstills, partitions, clocks", 1, { normal: 10, long: 500 }),
  fleets("fleet-shards", "fleets on two databases, and a third", 2, { normal: 4, long: 250 }),
]

const postgres = (file: string): string => `src/journal/postgres/${file}.ts`

export const mutants = mutantsOf({
  "fleet-simulation": {
    "a relay asks whether a stream is still its own before each attempt": [
      postgres("lanes/StreamState"),
      "return !this.isLost && this.owner.isAlive() && this.owner.askedAt() >= this.notBefore",
      "return true",
      7001,
    ],
    "events of a sink with an order go to the shared stream": [
      postgres("append/StreamWriter"),
      "const isShared = sinks.some((sink) => this.#exclusive.has(sink))",
      "const isShared = sinks.length < 0",
      1,
    ],
    "an append under an epoch that has passed is not stored": [
      postgres("append/Commits"),
      "isOwned} FOR SHARE)",
      'isOwned.replace("epoch = ($2::text[])[1]::bigint", "true")} FOR SHARE)',
      3,
    ],
    "an append whose answer was lost is looked for by its own identity": [
      postgres("tables/DatabaseSchema"),
      "l.received_to = a_to AND l.commit = a_commit",
      "false",
      1,
    ],
    "what is appended under a former name belongs to the lane that has another name since": [
      postgres("tables/LaneNames"),
      "aliases.set(from, { to, after: 0 })",
      "aliases",
      1,
    ],
    "a loss stays in the audit log when it was acknowledged": [
      postgres("fleet/RedAlarm"),
      "yield* AuditTable.putNew(",
      "void AuditTable.putNew(",
      1,
    ],
    "a relay names the events that the database lost": [
      postgres("fleet/RedAlarm"),
      "lost.events === 0 ? Effect.void",
      "lost.events >= 0 ? Effect.void",
      5,
    ],
    "a relay whose append failed for any reason is not ready": [
      postgres("connection/WriteTrouble"),
      "!isOfData(append.error)) note(append.error)",
      "!isOfData(append.error)) noteWrite(append.error)",
      1,
    ],
    "the others of a commit are stored if the database can't hold the text of one event": [
      postgres("append/Appends"),
      "const isSplit = count > 1 &&",
      "const isSplit = count < 0 &&",
      1,
    ],
    "a report that can't be read counts for nothing": [
      postgres("fleet/Membership"),
      "report: decodeReport(member.report)",
      "report: { isWhole: true, ...(member.report as object) } as MemberReport",
      1,
    ],
    "a reload does not wait for a stream that was lost": [
      "src/delivery/SinkChanges.ts",
      "schedule: openEvery, while: isNotFenced",
      "schedule: openEvery",
      3,
    ],
  },
  "test/journal/postgres/fleet/Fleet.test.ts": {
    "what a relay knew before a promotion is not stored on the promoted server": [
      postgres("lanes/StreamState"),
      " AND epoch >> 32 = timeline()",
      "",
    ],
  },
  "test/journal/postgres/fleet/EarlierState.test.ts": {
    "a sign of life shows that the database went back": [
      postgres("fleet/Fleet"),
      "this.#isBehind ||= this.#showsEarlierState(news, stored)",
      "this.#isBehind ||= false",
    ],
    "what a relay knew before is not stored on a database that went back since": [
      postgres("lanes/StreamState"),
      " AND knows(($2::text[])[2:])",
      "",
    ],
  },
})
