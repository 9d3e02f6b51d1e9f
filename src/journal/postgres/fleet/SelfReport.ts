import type { Introduction, LaneCounts, StreamReport } from "../../FleetStatus.ts"
import type { StreamState } from "../lanes/StreamState.ts"
import type { Report } from "./Membership.ts"

/** The description of a relay that has not described itself yet. */
export const nobody: Introduction = { version: "", configHash: "", sinks: {}, address: "", lanes: [] }

/** Returns the counts of a stream, without idle lanes. */
export const countsOf = ({ backlogs, letters, accepted, kept, bytes }: StreamState): StreamReport => {
  const lettered = [...letters.last.keys()].flatMap((lane) => backlogs.get(lane) ?? [])
  const lanes = [...new Set([...backlogs.holding(), ...lettered])].map(({ lane, size, retrying }) => [
    lane,
    { backlog: size, retrying: retrying.size, deadLetters: letters.last.get(lane)?.letters ?? 0 } satisfies LaneCounts,
  ])
  return { lanes: Object.fromEntries(lanes), accepted, kept, bytes }
}

/** Returns the report that a heartbeat carries to the others. */
export const reportOf = (streams: ReadonlyArray<StreamState>, { lanes }: Introduction): Report => ({
  streams: Object.fromEntries(streams.map((stream) => [stream.id, countsOf(stream)])),
  lanes,
})
