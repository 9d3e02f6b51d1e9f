/** An operator's changes to lanes that no relay has a sink for, over the streams of all relays. */
import { Effect } from "effect"
import { type JournalError, unavailable } from "../../JournalError.ts"
import { empty } from "../append/LaneEmptying.ts"
import type { Database } from "../connection/Database.ts"
import { refusing } from "../connection/DatabaseRefusal.ts"
import type { Member } from "../fleet/Member.ts"
import * as LaneMoves from "../lanes/LaneMoves.ts"
import { load } from "../lanes/StreamLoading.ts"
import { StreamState } from "../lanes/StreamState.ts"

/** A stream of another relay, as it stands now. */
const visit = ({ fleet }: Member, id: number, epoch = 0): Effect.Effect<StreamState, JournalError> => {
  const visited = new StreamState(fleet.owner, id, epoch, true)
  return Effect.as(load(visited), visited)
}

/** A stream, of this relay or another. */
export const streamOf = (member: Member, id: number, epoch = 0): Effect.Effect<StreamState, JournalError> => {
  const own = member.fleet.streams.find((stream) => stream.id === id && !stream.isLost)
  return own === undefined ? visit(member, id, epoch) : Effect.succeed<StreamState>(own)
}

/** The streams of all relays that have the lane. */
const holding = Effect.fnUntraced(function* (db: Database, member: Member, lane: string) {
  yield* LaneMoves.requireOrphaned(lane, member.fleet.relaysWith(lane))
  const { rows } = yield* refusing(db.query<{ id: number; epoch: number }>("SELECT id, epoch FROM stream ORDER BY id"))
  const streams = yield* Effect.forEach(rows, ({ id, epoch }) => streamOf(member, id, epoch))
  return streams.filter(({ backlogs }) => backlogs.has(lane))
})

/** Appends again what `from` holds for `to`: how many events. Eleven round trips a stream, and two for 256 events. */
export const move = Effect.fnUntraced(function* (
  db: Database,
  member: Member,
  from: string,
  to: string,
): Effect.fn.Return<number, JournalError> {
  const streams = yield* holding(db, member, from)
  if (streams.length === 0) {
    return yield* unavailable(`There is no lane ${from} in the journal. See \`relay lanes list\`.`)
  }
  if (from === to) return 0
  let count = 0
  const isConfigured = () => true
  for (const stream of streams) {
    // A lane of its own first: what is moved by an operator is appended again, and told as moved.
    yield* LaneMoves.open(stream, to, { isConfigured })
    count += yield* LaneMoves.open(stream, to, { renamedFrom: from, isConfigured })
    const now = stream.isVisited ? yield* visit(member, stream.id) : stream
    count += yield* empty(now, member.writer, from)
  }
  return count
})

/** Removes a lane from every stream: how many events were given up. Nine round trips a stream. */
export const drop = Effect.fnUntraced(function* (db: Database, member: Member, name: string) {
  let count = 0
  for (const stream of yield* holding(db, member, name)) count += yield* LaneMoves.remove(stream, name)
  return count
})
