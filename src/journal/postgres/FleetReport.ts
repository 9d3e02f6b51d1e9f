/** What follows, for all relays together, from what each tells. */
import type { FleetStatus } from "../FleetStatus.ts"
import type { LaneInfo } from "../LaneInfo.ts"
import type { Fleet } from "./Fleet.ts"
import { countsOf } from "./SelfReport.ts"
import { sharedStream } from "./Sequences.ts"

/** Bytes of all streams. */
export const bytes = ({ streams, others }: Fleet): number =>
  streams.reduce((sum, { bytes }) => sum + bytes, 0) + others.reduce((sum, { report }) => sum + (report.bytes ?? 0), 0)

/** What other relays say of the lanes of their streams, as if it were one's own. */
export const elsewhere = ({ others }: Fleet): ReadonlyArray<ReadonlyArray<LaneInfo>> =>
  others.flatMap(({ report }) =>
    Object.values(report.streams ?? {}).map(({ lanes }) =>
      Object.entries(lanes).map(([name, counts]) => ({
        name,
        ...counts,
        cursor: { sequence: 0, settled: [] },
        deadLetterBytes: 0,
        paused: false,
      })),
    ),
  )

export const statusOf = (fleet: Fleet): FleetStatus => ({
  members: fleet.news.members
    .map(({ name, version, config_hash, address, report }) => ({
      name,
      isSelf: name === fleet.name,
      version,
      configHash: config_hash,
      address,
      age: name === fleet.name ? fleet.beatAge : fleet.ageOf(name),
      lanes: report.lanes ?? [],
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1)),
  streams: fleet.news.streams
    .map(({ id, owner }) => {
      const own = fleet.streams.find((stream) => stream.id === id)
      const reported = fleet.others.find(({ name }) => name === owner)?.report.streams?.[id]
      return {
        id,
        ...(owner !== null && { owner }),
        isShared: id === sharedStream,
        lanes: (own === undefined ? reported : countsOf(own))?.lanes ?? {},
      }
    })
    .sort((a, b) => a.id - b.id),
  counters: { ...fleet.counters },
  owned: fleet.streams.length,
  ownedBytes: fleet.streams.reduce((sum, { bytes }) => sum + bytes, 0),
  beatAge: fleet.beatAge,
})
