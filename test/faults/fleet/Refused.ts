/**
 * The database refuses the data of one event, and the progress of one lane: all
 * other events are stored and delivered, and the progress of the other lane is
 * stored. A database whose encoding can't hold every event is refused before.
 */
import { makePostgres, missing, type Postgres } from "../../parts/Postgres.ts"
import { type Line, mutantsOf, type Options } from "../Line.ts"
import { eventually, Subject, skipped } from "../relay/Subject.ts"
import { Ends } from "../relay/Traffic.ts"

const line = "fleet-refused"
const deliveries = { normal: 2_000, long: 50_000 }
/** The number of the event that the database refuses. All other events have lower numbers. */
const unstorable = 10_000_000

const constraints = `
  ALTER TABLE relay.log ADD CONSTRAINT refuses CHECK (position('"evt_${unstorable}"'::bytea IN bytes) = 0);
  ALTER TABLE relay.outcome ADD CONSTRAINT refuses CHECK (lane <> 'late')`
const mended = "ALTER TABLE relay.log DROP CONSTRAINT refuses; ALTER TABLE relay.outcome DROP CONSTRAINT refuses"

const subjectOn = (options: Options, ends: Ends, { url }: Postgres, database = "relay") =>
  Subject.make(options, {
    sinks: ends.sinks,
    journal: { type: "postgres", url: `${url.replace(/relay$/, database)}?sslmode=disable`, name: "a" },
  })

/** Returns a failure if a database in Latin 1 is accepted. */
const refusesLatin1 = async (options: Options, ends: Ends, postgres: Postgres): Promise<ReadonlyArray<string>> => {
  await postgres.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
  const subject = await subjectOn(options, ends, postgres, "latin")
  const { code, said } = await subject.run("validate")
  subject.remove()
  return code !== 0 && said.includes("LATIN1") ? [] : [`a database in LATIN1 was accepted: ${said}`]
}

/** Sends events, and among them repeatedly the event that the database refuses. */
const send = async ({ sender }: Subject, count: number): Promise<ReadonlyArray<string>> => {
  let isOver = false
  let tries = 0
  const refused = async () => {
    for (; !isOver; tries++) if ((await sender.send(unstorable)) !== 503) return
  }
  const others = sender.burst(count).finally(() => {
    isOver = true
  })
  await Promise.all([refused(), others])
  const total = [...sender.refused.values()].reduce((sum, count) => sum + count, 0)
  return [
    ...(sender.acknowledged.has(unstorable) ? ["an event was answered 202 that the database refuses"] : []),
    ...(total === tries ? [] : [`${total - tries} other deliveries were refused`]),
  ]
}

/** Reports whether the progress of a lane is stored up to the head. */
const isStored = async (postgres: Postgres, lane: string): Promise<boolean> => {
  const [row] = await postgres.sql(`
    SELECT ((lanes || relay.among(lanes, changed)) -> '${lane}' ->> 'sequence')::bigint = max(first + count - 1) AS stored
    FROM relay.log JOIN relay.progress ON stream = first / 4398046511104 GROUP BY stream, lanes, changed`)
  return row?.stored === true
}

export const refused: Line = {
  name: line,
  fault: "a database that refuses one event, and one lane's progress",
  run: async (options) => {
    const lacking = missing()
    if (lacking !== undefined) return skipped(lacking)
    const postgres = await makePostgres()
    const ends = new Ends()
    const broken = [...(await refusesLatin1(options, ends, postgres))]
    const subject = await subjectOn(options, ends, postgres)
    const relay = await subject.start()
    const { sender } = subject
    const count = options.long ? deliveries.long : deliveries.normal
    await postgres.sql(constraints)
    broken.push(...(await send(subject, count)))
    if (!(await eventually(() => isStored(postgres, "live"), 30)))
      broken.push("the progress of a lane was not stored that the database takes")
    const { lanes } = await subject.status()
    const told = lanes.find(({ name }) => name === "late")
    if (!told?.message.includes("(23514)")) broken.push(`the status does not name the reason: ${told?.message}`)
    await postgres.sql(mended)
    if (!(await eventually(() => isStored(postgres, "late"), 30)))
      broken.push("the progress of a lane was not stored after the database took it again")
    await eventually(() => ends.lost(sender).length === 0, 30)
    await relay.kill()
    const lost = ends.lost(sender).length
    const all = [...broken, ...ends.altered]
    await Promise.all([ends.close(), postgres.stop()])
    if (lost + all.length === 0) subject.remove()
    const duplicates = 0
    return { rounds: count, acknowledged: sender.acknowledged.size, lost, duplicates, broken: all }
  },
}

export const refusedMutants = mutantsOf({
  "fleet-refused": {
    "a settlement is split if the database refuses the data of one of its lanes": [
      "src/journal/postgres/lanes/Settling.ts",
      "if (settlements.length === 1) return Effect.succeed([{ lane: first.lane, error }])",
      "if (settlements.length > 0) return Effect.fail(error)",
    ],
    "the other events of a commit are stored if the database refuses one": [
      "src/journal/postgres/append/Appends.ts",
      "const isSplit = count > 1 && ",
      "const isSplit = count < 0 && ",
    ],
    "a database whose encoding can't hold every event is refused": [
      "src/journal/postgres/connection/Connection.ts",
      'if (encoding !== "UTF8") throw',
      'if (encoding === "") throw',
    ],
  },
})
