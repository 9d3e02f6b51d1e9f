/** The room for replayed events at their sinks. A replay leaves half of a sink's backlog limit to new events. */
import { Effect } from "effect"
import type { RelayConfig } from "../../config/Config.ts"
import type { Archive } from "../../journal/Archive.ts"

/** A replay waits while this many events wait for a sink, or fewer if the sink's `backlog.max` is lower. */
const maxWaiting = 10_000

/** Returns how many more events may wait for each of these sinks, and if none may, the reason. */
export const roomAt = Effect.fnUntraced(function* (archive: Archive["Service"], sinks: RelayConfig["sinks"]) {
  const lanes = new Map((yield* archive.lanes).map(({ name, backlog }) => [name, backlog]))
  let [events, why] = [Number.POSITIVE_INFINITY, ""]
  for (const { name, backlog } of sinks) {
    const most = Math.max(1, Math.min(maxWaiting, Math.floor((backlog?.max ?? Number.POSITIVE_INFINITY) / 2)))
    const waiting = lanes.get(name) ?? 0
    events = Math.min(events, most - waiting)
    if (waiting >= most) why = `${waiting} events wait for the sink ${name}`
  }
  return { events, why }
})
