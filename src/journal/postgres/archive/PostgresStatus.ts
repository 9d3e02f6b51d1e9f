/** The journal's status, from memory. */
import { Effect } from "effect"
import { relayVersion } from "../../../runtime/Version.ts"
import type { JournalStatus, KeptText } from "../../Archive.ts"
import { conditionOf } from "../../archive/AlarmLines.ts"
import type { Room } from "../../archive/Room.ts"
import type { WallClock } from "../../WallClock.ts"
import type { Database } from "../connection/Database.ts"
import type { Admission } from "../fleet/Admission.ts"
import type { FleetReport } from "../fleet/FleetReport.ts"
import type { Member } from "../fleet/Member.ts"
import type { RedAlarm } from "../fleet/RedAlarm.ts"

/** Takes no round trip: it shows other relays' last reports. */
export const make = (
  { fleet, writer, silence }: Member,
  report: FleetReport,
  admission: Admission,
  alarm: RedAlarm,
  maxBytes: number,
  room: Room,
  wallClock: WallClock,
): Effect.Effect<JournalStatus> =>
  Effect.sync(() => {
    const raised = alarm.state(fleet.news.alarm, fleet.now() - fleet.beatAge)
    const troubles = fleet.streams.flatMap(({ trouble }) =>
      trouble === "" ? [] : [`What the lanes settle can't be stored, and soon nothing more is delivered: ${trouble}`],
    )
    const unreadable = fleet.unreadable.map(
      ({ name, version }) =>
        `The relay ${name} (version ${version || "unknown"}) reports figures that this relay (version ${relayVersion}) can't read, so they count for nothing: run the same version at each.`,
    )
    const { health, message } = admission.health()
    const { answeredAt } = silence
    const usedBytes = report.usedBytes()
    const head = report.sum(({ accepted }) => accepted)
    return {
      ...conditionOf(health, [message, ...troubles, ...unreadable], raised, wallClock),
      head,
      first: head + 1 - report.sum(({ kept }) => kept),
      usedBytes,
      maxBytes,
      filling: room.filling(usedBytes),
      counters: { ...writer.counters },
      engine: answeredAt === undefined ? {} : { answeredAt },
    }
  })

/** A database that doesn't answer must not hold up a start or a stop. */
const options = { timeout: 2_000 }

/**
 * A crash of the server may lose the counts, so this doesn't wait for the disk. Rows older than an hour belong
 * to relays that have ended.
 */
const replace = `WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
  old AS (DELETE FROM hour WHERE at < now() - interval '1 hour' AND relay <> $1)
INSERT INTO hour SELECT $1, now(), $2 FROM relaxed
ON CONFLICT (relay) DO UPDATE SET at = excluded.at, counts = excluded.counts`

/** A relay's counts of the last hour, under its name: the next relay of that name continues them. */
export const hourCounts = (db: Database, relay: string): KeptText => ({
  read: db.query<{ readonly counts: string }>("SELECT counts FROM hour WHERE relay = $1", [relay], options).pipe(
    Effect.map(({ rows }) => rows[0]?.counts),
    Effect.orElseSucceed(() => undefined),
  ),
  replace: (text) => Effect.ignore(db.query(replace, [relay, text], options)),
})
