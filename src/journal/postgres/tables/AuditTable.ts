/** The audit log of all relays, in the table `audit`. Each operation takes one round trip. */
import { Effect } from "effect"
import { type AuditLog, type AuditQuery, type AuditRecord, kept, type Operation } from "../../AuditLog.ts"
import { expiredBefore, type WallClock } from "../../WallClock.ts"
import { type Queries, unnested } from "../connection/Database.ts"
import { refusing } from "../connection/DatabaseError.ts"

type Stored = Omit<AuditRecord, "id">

/** Also removes old records. Both are one statement, so the deletion doesn't see the inserted row. */
const insert = `WITH old AS (
    DELETE FROM audit WHERE at < $9 OR (result = 'refused') = ($6 = 'refused') AND id <= (
      SELECT id FROM audit WHERE (result = 'refused') = ($6 = 'refused') ORDER BY id DESC LIMIT 1 OFFSET ${kept.records - 1})
  )
  INSERT INTO audit (at, who, "by", what, "on", result, note, relay)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

const columnsOf = ({ at, who, by, what, on, result, note, relay }: Stored) => [
  Math.round(at),
  who,
  by,
  what,
  on,
  result,
  note,
  relay,
]

/** Inserts the records of `params`. In the statement, `new` is the table of these records. */
const insertAll = `INSERT INTO audit (at, who, "by", what, "on", result, note, relay)
  SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
    AS new(at, who, "by", what, "on", result, note, relay)`

const params = (records: ReadonlyArray<Stored>) => unnested(8, records, columnsOf)

/** `relay` is the name of this relay. Nothing is deleted by age while its wall clock can't be trusted. */
export const make = (db: Queries, relay: string, wallClock: WallClock) =>
  ({
    record: (operation: Operation) =>
      Effect.suspend(() => {
        const before = expiredBefore(wallClock, operation.at, kept.age)
        return Effect.asVoid(refusing(db.query(insert, [...columnsOf({ ...operation, relay }), before])))
      }),
    list: ({ since = 0, before = Number.MAX_SAFE_INTEGER, limit }: AuditQuery) =>
      Effect.map(
        refusing(
          db.query<AuditRecord>("SELECT * FROM audit WHERE at >= $1 AND id < $2 ORDER BY id DESC LIMIT $3", [
            Math.ceil(since),
            before,
            limit,
          ]),
        ),
        ({ rows }) => rows,
      ),
  }) satisfies AuditLog

/** Stores records that may be stored already, because the first answer was lost. */
export const putNew = (db: Queries, records: ReadonlyArray<Stored>) =>
  records.length === 0
    ? Effect.void
    : db.query(
        `${insertAll} WHERE NOT EXISTS (SELECT FROM audit WHERE (at, note, relay) = (new.at, new.note, new.relay))`,
        params(records),
      )

/** Stores another journal's records, in their order. */
export const put = (db: Queries, records: ReadonlyArray<Stored>) => db.query(insertAll, params(records))
