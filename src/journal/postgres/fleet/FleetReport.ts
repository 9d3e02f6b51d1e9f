/**
 * Reports what all streams hold, from memory: this relay's own as they are, and
 * the others as their owners reported last. A report is at most a second old; that
 * of a relay that ended stands until another relay takes its streams.
 */
import { type FleetStatus, type StreamReport, takeoverAfter } from "../../FleetStatus.ts"
import type { LaneInfo } from "../../LaneInfo.ts"
import type { OwnedStream } from "../lanes/OwnedStream.ts"
import { sharedStream } from "../tables/Sequences.ts"
import type { Fleet } from "./Fleet.ts"
import { countsOf } from "./SelfReport.ts"

const nothing: StreamReport = { lanes: {}, accepted: 0, kept: 0, bytes: 0 }

/** Figures over all streams, from memory. */
export class FleetReport {
  readonly #fleet: Fleet
  #seen: Fleet["news"] | undefined
  readonly #said = new Map<number, StreamReport>()
  /** Since when no live relay has a stream, in milliseconds of the fleet's clock. */
  readonly #unownedSince = new Map<number, number>()

  constructor(fleet: Fleet) {
    this.#fleet = fleet
  }

  #own(id: number): OwnedStream | undefined {
    return this.#fleet.streams.find((stream) => stream.id === id && !stream.isLost)
  }

  /** Takes what is new; every second, so that nothing is missed that a relay says before it leaves. */
  look(): void {
    const { news, name } = this.#fleet
    if (this.#seen === news) return
    this.#seen = news
    for (const { id, owner } of news.streams) {
      const own = this.#own(id)
      const said = news.members.find((member) => member.name === owner)
      const report = own === undefined ? said?.report.streams?.[id] : countsOf(own)
      if (report !== undefined) this.#said.set(id, report)
      const isLive =
        own !== undefined || (said !== undefined && owner !== name && this.#fleet.ageOf(said.name) < takeoverAfter)
      if (isLive) this.#unownedSince.delete(id)
      else if (!this.#unownedSince.has(id)) this.#unownedSince.set(id, this.#fleet.now())
    }
  }

  /** By stream, its counts. */
  get streams(): ReadonlyMap<number, StreamReport> {
    this.look()
    return new Map(
      this.#fleet.news.streams.map(({ id }) => {
        const own = this.#own(id)
        return [id, own === undefined ? (this.#said.get(id) ?? nothing) : countsOf(own)]
      }),
    )
  }

  /** Over all streams. */
  sum(of: (stream: StreamReport) => number): number {
    return [...this.streams.values()].reduce((sum, stream) => sum + of(stream), 0)
  }

  /** Bytes of all streams. */
  get usedBytes(): number {
    return this.sum(({ bytes }) => bytes)
  }

  /** The backlog of each lane in each stream. */
  get waiting(): ReadonlyArray<readonly [lane: string, backlog: number]> {
    return [...this.streams.values()].flatMap(({ lanes }) =>
      Object.entries(lanes).map(([name, { backlog }]): readonly [string, number] => [name, backlog]),
    )
  }

  /** The lanes of other relays' streams, as if they were one's own. */
  get elsewhere(): ReadonlyArray<ReadonlyArray<LaneInfo>> {
    return [...this.streams].flatMap(([id, { lanes }]) =>
      this.#own(id) !== undefined
        ? []
        : [
            Object.entries(lanes).map(([name, counts]) => ({
              name,
              ...counts,
              oldest: 0,
              cursor: { sequence: 0, settled: [] },
              deadLetterBytes: 0,
              paused: this.#fleet.isPaused(name),
            })),
          ],
    )
  }

  get status(): FleetStatus {
    const fleet = this.#fleet
    const { streams } = this
    return {
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
          const since = this.#unownedSince.get(id)
          return {
            id,
            ...(owner !== null && { owner }),
            isShared: id === sharedStream,
            ...(streams.get(id) ?? nothing),
            ...(since !== undefined && { unownedFor: fleet.now() - since }),
          }
        })
        .sort((a, b) => a.id - b.id),
      counters: { ...fleet.counters },
      owned: fleet.streams.length,
      ownedBytes: fleet.streams.reduce((sum, { bytes }) => sum + bytes, 0),
      beatAge: fleet.beatAge,
    }
  }
}
