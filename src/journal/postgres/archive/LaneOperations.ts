/** An operator's changes, in the streams of all relays, to lanes that no relay has a sink for. */
import { Effect } from "effect"
import type { LaneRows } from "../../archive/MovedLanes.ts"
import { type JournalError, unavailable } from "../../JournalError.ts"
import { inUse } from "../../LaneInfo.ts"
import { logOf } from "../append/LaneEmptying.ts"
import type { Database } from "../connection/Database.ts"
import { refusing } from "../connection/DatabaseError.ts"
import type { Member } from "../fleet/Member.ts"
import * as LaneMoves from "../lanes/LaneChange.ts"
import { load } from "../lanes/StreamLoading.ts"
import { StreamState } from "../lanes/StreamState.ts"

/** A stream of another relay, in its present state. */
const visit = ({ fleet }: Member, id: number, epoch = 0): Effect.Effect<StreamState, JournalError> => {
  const visited = new StreamState(fleet.owner, id, epoch, true)
  return Effect.as(load(visited), visited)
}

/** A stream, owned by this relay or another. */
export const streamOf = (member: Member, id: number, epoch = 0): Effect.Effect<StreamState, JournalError> => {
  const own = member.fleet.streams.find((stream) => stream.id === id && !stream.isLost)
  return own === undefined ? visit(member, id, epoch) : Effect.succeed<StreamState>(own)
}

/** A lane in a stream. A move takes eleven round trips, and two for 256 events. A drop takes nine. */
const laneIn = (member: Member, stream: StreamState, name: string): LaneRows => {
  let now = stream
  return {
    moveKept: Effect.fnUntraced(function* (to) {
      const isConfigured = () => true
      // Two lanes exist then, so this is not a rename: events are appended again, and recorded as moved.
      yield* LaneMoves.open(stream, to, { isConfigured })
      const count = yield* LaneMoves.open(stream, to, { renamedFrom: name, isConfigured })
      now = stream.isVisited ? yield* visit(member, stream.id) : stream
      return { count, log: yield* logOf(now, member.writer, name) }
    }),
    removeEmpty: (why) => Effect.as(LaneMoves.remove(now, name, why), true),
    drop: (why) => LaneMoves.remove(stream, name, why),
  }
}

/** A lane in the streams of all relays that have it. */
export const lanesNamed = Effect.fnUntraced(function* (
  db: Database,
  member: Member,
  name: string,
): Effect.fn.Return<ReadonlyArray<LaneRows>, JournalError> {
  const relays = member.fleet.relaysWith(name)
  if (relays.length > 0) return yield* unavailable(`The ${inUse(name, relays)}.`)
  const { rows } = yield* refusing(db.query<{ id: number; epoch: number }>("SELECT id, epoch FROM stream ORDER BY id"))
  const streams = yield* Effect.forEach(rows, ({ id, epoch }) => streamOf(member, id, epoch))
  return streams.filter(({ backlogs }) => backlogs.has(name)).map((stream) => laneIn(member, stream, name))
})
