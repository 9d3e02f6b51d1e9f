/**
 * A relay's report of itself, as the others read it. It may come from another version of the relay, or be
 * damaged.
 *
 * **Guarantee.** A part that can't be read is left out and ignored: no relay refuses or deletes anything
 * because of it.
 */
import { Option, Schema } from "effect"
import { type LaneReport, reportedConditions, type StreamReport } from "../../FleetStatus.ts"

/** A decoded report. */
export interface MemberReport {
  readonly streams: Readonly<Record<string, StreamReport>>
  readonly lanes: ReadonlyArray<LaneReport>
  /** Whether every part could be read. */
  readonly isWhole: boolean
}

const Figure = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const Stream = Schema.Struct({
  lanes: Schema.Record(Schema.String, Schema.Struct({ backlog: Figure, retrying: Figure, deadLetters: Figure })),
  accepted: Figure,
  kept: Figure,
  bytes: Figure,
})

const Lane = Schema.Struct({
  name: Schema.String,
  type: Schema.String,
  condition: Schema.Literals(reportedConditions),
  message: Schema.String,
  oldestAt: Schema.Finite,
})

const streamOf = Schema.decodeUnknownOption(Stream)
const laneOf = Schema.decodeUnknownOption(Lane)
const partsOf = Schema.decodeUnknownOption(
  Schema.Struct({ streams: Schema.Record(Schema.String, Schema.Unknown), lanes: Schema.Array(Schema.Unknown) }),
)

/** A relay that has just joined has reported nothing yet. */
const isEmpty = (report: unknown): boolean => JSON.stringify(report) === "{}"

/** Decodes a report. Each stream and each lane is decoded separately. */
export const decodeReport = (report: unknown): MemberReport => {
  const parts = Option.getOrUndefined(partsOf(report))
  if (parts === undefined) return { streams: {}, lanes: [], isWhole: isEmpty(report) }
  const streams = Object.entries(parts.streams).flatMap(([id, one]) =>
    Option.toArray(streamOf(one)).map((stream) => [id, stream] as const),
  )
  const lanes = parts.lanes.flatMap((one) => Option.toArray(laneOf(one)))
  const isWhole = streams.length === Object.keys(parts.streams).length && lanes.length === parts.lanes.length
  return { streams: Object.fromEntries(streams), lanes, isWhole }
}
