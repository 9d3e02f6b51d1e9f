/** Combines a lane's infos from several streams. */
import type { LaneInfo } from "./LaneInfo.ts"

/**
 * Returns lanes by name. The cursor and the pause are from the first stream that has the lane, and the oldest event
 * is from the first that has one.
 */
export const totals = (streams: ReadonlyArray<ReadonlyArray<LaneInfo>>): ReadonlyArray<LaneInfo> => {
  const [only, ...others] = streams
  if (only !== undefined && others.length === 0) return only
  const all = new Map<string, LaneInfo>()
  for (const lane of streams.flat()) {
    const known = all.get(lane.name)
    all.set(
      lane.name,
      known === undefined
        ? lane
        : {
            ...known,
            backlog: known.backlog + lane.backlog,
            oldest: known.oldest === 0 ? lane.oldest : known.oldest,
            retrying: known.retrying + lane.retrying,
            returned: known.returned + lane.returned,
            deadLetters: known.deadLetters + lane.deadLetters,
            deadLetterBytes: known.deadLetterBytes + lane.deadLetterBytes,
          },
    )
  }
  return [...all.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}
