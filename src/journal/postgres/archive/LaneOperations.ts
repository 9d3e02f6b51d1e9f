/** An operator's changes to lanes, over the streams of all relays. */
import { Effect } from "effect"
import type { JournalError } from "../../JournalError.ts"
import { unavailable } from "../../JournalError.ts"
import { empty } from "../append/LaneEmptying.ts"
import type { Database } from "../connection/Database.ts"
import { refusing } from "../connection/DatabaseRefusal.ts"
import type { Member } from "../fleet/Member.ts"
import * as LaneMoves from "../lanes/LaneMoves.ts"
import { load } from "../lanes/StreamLoading.ts"
import { StreamState } from "../lanes/StreamState.ts"

export class LaneOperations {
  readonly #db: Database
  readonly #member: Member

  constructor(db: Database, member: Member) {
    this.#db = db
    this.#member = member
  }

  /** Appends again what `from` holds for `to`: how many events. Eleven round trips a stream, and two for 256 events. */
  readonly move = Effect.fnUntraced(function* (
    this: LaneOperations,
    from: string,
    to: string,
  ): Effect.fn.Return<number, JournalError> {
    const { writer } = this.#member
    const holding = yield* this.#holding(from)
    if (holding.length === 0) {
      return yield* unavailable(`There is no lane ${from} in the journal. See \`relay lanes list\`.`)
    }
    if (from === to) return 0
    let count = 0
    const isConfigured = () => true
    for (const stream of holding) {
      // A lane of its own first: what is moved by an operator is appended again, and told as moved.
      yield* LaneMoves.open(stream, to, { isConfigured })
      count += yield* LaneMoves.open(stream, to, { renamedFrom: from, isConfigured })
      const now = stream.isVisited ? yield* this.#visit(stream.id) : stream
      count += yield* empty(now, writer, from)
    }
    return count
  })

  /** Removes a lane from every stream: how many events were given up. Nine round trips a stream. */
  readonly drop = Effect.fnUntraced(function* (this: LaneOperations, name: string) {
    let count = 0
    for (const stream of yield* this.#holding(name)) count += yield* LaneMoves.remove(stream, name)
    return count
  })

  /** The streams of all relays that have a lane which is no sink's: this relay's own, and others as they stand now. */
  #holding = Effect.fnUntraced(function* (this: LaneOperations, lane: string) {
    const { fleet } = this.#member
    yield* LaneMoves.requireOrphaned(lane, fleet.relaysWith(lane))
    const { rows } = yield* refusing(
      this.#db.query<{ id: number; epoch: number }>("SELECT id, epoch FROM stream ORDER BY id"),
    )
    const streams = yield* Effect.forEach(rows, ({ id, epoch }) => {
      const own = fleet.streams.find((stream) => stream.id === id && !stream.isLost)
      return own === undefined ? this.#visit(id, epoch) : Effect.succeed<StreamState>(own)
    })
    return streams.filter(({ backlogs }) => backlogs.has(lane))
  })

  #visit(id: number, epoch = 0): Effect.Effect<StreamState, JournalError> {
    const visited = new StreamState(this.#member.fleet.owner, id, epoch, true)
    return Effect.as(load(visited), visited)
  }
}
