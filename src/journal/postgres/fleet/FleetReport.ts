/**
 * Reports the contents of all streams, from memory: this relay's own as they are, and the others as their
 * owners last reported them. Reports are at most a second old. The report of a relay that ended is kept until
 * another relay takes its streams. A report that can't be read is ignored (`Membership.ts`).
 */
import {
  type FleetStatus,
  type LaneCounts,
  type LaneReport,
  type MemberStatus,
  type StreamReport,
  takeoverAfter,
} from "../../FleetStatus.ts"
import type { LaneInfo } from "../../LaneInfo.ts"
import { sharedStream } from "../../Sequences.ts"
import { OwnedStream } from "../lanes/OwnedStream.ts"
import { countsOf, type Fleet } from "./Fleet.ts"
import type { MemberRow } from "./Membership.ts"

type Figures = Omit<StreamReport, "lanes">

const nothing: StreamReport = { lanes: {}, accepted: 0, kept: 0, bytes: 0 }
const idle: LaneCounts = { backlog: 0, retrying: 0, deadLetters: 0 }

/** The sinks in a relay's config. It reports only those that may not be idle. */
const lanesOf = ({ sinks, report: { lanes } }: MemberRow): ReadonlyArray<LaneReport> => {
  const unreported = new Map(Object.entries(sinks))
  for (const { name } of lanes) unreported.delete(name)
  const reports = [...unreported].map(([name, type]): LaneReport => {
    return { name, type, condition: "running", message: "", oldestAt: 0 }
  })
  return [...lanes, ...reports]
}

const memberOf = (fleet: Fleet, member: MemberRow): MemberStatus => {
  const { name, version, config_hash, address } = member
  const isSelf = name === fleet.name
  return {
    ...{ name, isSelf, version, configHash: config_hash, address },
    age: isSelf ? fleet.beatAge : fleet.ageOf(name),
    lanes: lanesOf(member),
  }
}

/** Figures over all streams. */
export interface FleetReport extends ReturnType<typeof make> {}

export const make = (fleet: Fleet) => {
  let seen: Fleet["news"] | undefined
  /** The last known state of each stream. The lanes of this relay's own streams are counted on demand. */
  const reports = new Map<number, StreamReport | OwnedStream>()
  /** Since when a stream has had no live owner, in milliseconds of the fleet's clock. */
  const unownedSince = new Map<number, number>()

  const ownOf = (id: number): OwnedStream | undefined =>
    fleet.streams.find((stream) => stream.id === id && !stream.isLost)

  /** Takes in news. It runs each second, so that it also sees a relay's last report before that relay leaves. */
  const look = (): void => {
    const { news, name } = fleet
    if (seen === news) return
    seen = news
    for (const { id, owner } of news.streams) {
      const own = ownOf(id)
      const other = news.members.find((member) => member.name === owner)
      const report = own ?? other?.report.streams[id]
      if (report !== undefined) reports.set(id, report)
      else if (other?.report.isWhole === false) reports.delete(id)
      const isLive =
        own !== undefined || (other !== undefined && owner !== name && fleet.ageOf(other.name) < takeoverAfter)
      if (isLive) unownedSince.delete(id)
      else if (!unownedSince.has(id)) unownedSince.set(id, fleet.now())
    }
  }

  const known = (): ReadonlyArray<readonly [id: number, stream: StreamReport | OwnedStream]> => {
    look()
    return fleet.news.streams.map(({ id }) => [id, ownOf(id) ?? reports.get(id) ?? nothing])
  }

  const streams = (): ReadonlyMap<number, StreamReport> =>
    new Map(known().map(([id, stream]) => [id, stream instanceof OwnedStream ? countsOf(stream) : stream]))

  const sum = (of: (figures: Figures) => number): number => known().reduce((sum, [, stream]) => sum + of(stream), 0)

  return {
    sum,

    /** Bytes of all streams. */
    usedBytes: (): number => sum(({ bytes }) => bytes),

    /** The backlog of each lane in each stream. */
    waiting: (): ReadonlyArray<readonly [lane: string, backlog: number]> =>
      [...streams().values()].flatMap(({ lanes }) =>
        Object.entries(lanes).map(([name, { backlog }]): readonly [string, number] => [name, backlog]),
      ),

    /** The lanes of other relays' streams, in the form of this relay's own. */
    elsewhere: (): ReadonlyArray<ReadonlyArray<LaneInfo>> => {
      const sinks = fleet.others.map(({ sinks }) => Object.keys(sinks).map((name) => [name, idle] as const))
      const others = [...streams()].filter(([id]) => ownOf(id) === undefined)
      return [...others.map(([, { lanes }]) => Object.entries(lanes)), ...sinks].map((lanes) =>
        lanes.map(([name, counts]) => ({
          name,
          ...counts,
          returned: 0,
          oldest: 0,
          cursor: { sequence: 0, settled: [] },
          deadLetterBytes: 0,
          ...fleet.pauseOf(name),
        })),
      )
    },

    /** Reports the relays by name, and the streams with their owners by number. */
    status: (): FleetStatus => {
      const reports = streams()
      return {
        members: fleet.news.members.map((member) => memberOf(fleet, member)).sort((a, b) => (a.name < b.name ? -1 : 1)),
        streams: fleet.news.streams
          .map(({ id, owner }) => {
            const since = unownedSince.get(id)
            return {
              id,
              ...(owner !== null && { owner }),
              isShared: id === sharedStream,
              ...(reports.get(id) ?? nothing),
              ...(since !== undefined && { unownedFor: fleet.now() - since }),
            }
          })
          .sort((a, b) => a.id - b.id),
        counters: { ...fleet.counters },
        owned: fleet.streams.length,
        ownedBytes: fleet.streams.reduce((sum, { bytes }) => sum + bytes, 0),
        beatAge: fleet.beatAge,
      }
    },
  }
}
