/** A stream that this relay owns, as the lanes use it. */
import { Effect } from "effect"
import type { Entry } from "../../../event/Event.ts"
import { completing } from "../../archive/MovedLanes.ts"
import type { Log, OpenOptions } from "../../Journal.ts"
import type { JournalError } from "../../JournalError.ts"
import type { LaneInfo, OpenedLane } from "../../LaneInfo.ts"
import type { Settlement } from "../../Settlement.ts"
import { type Backlog, WebhookBytes } from "../../stream/Backlog.ts"
import { readBytes } from "../../stream/BulkSlices.ts"
import { decode } from "../../stream/Record.ts"
import { refusing } from "../connection/DatabaseError.ts"
import * as LaneTables from "../tables/LaneTables.ts"
import * as LaneMoves from "./LaneChange.ts"
import type { LetterCount } from "./LetterCounts.ts"
import { settle } from "./Settling.ts"
import { StreamState } from "./StreamState.ts"

/** A stream's `Log`, for the lanes that this relay runs over it. */
export class OwnedStream extends StreamState implements Log {
  get head(): Effect.Effect<number> {
    return Effect.sync(() => this.end)
  }

  awaitBeyond(after: number, lane?: string): Effect.Effect<number> {
    return Effect.callback((resume) => {
      const cancel = this.waiting.awaitBeyond(after, lane, (through) => resume(Effect.succeed(through)))
      return cancel && Effect.sync(cancel)
    })
  }

  settle(settlements: ReadonlyArray<Settlement>) {
    return Effect.suspend(() => {
      if (this.isLost) return Effect.fail(this.fencedError)
      return settle(this, settlements).pipe(
        Effect.tap(() => this.#troubled("")),
        Effect.tapError(({ reason, message }) =>
          reason._tag === "JournalFenced" ? Effect.void : this.#troubled(message),
        ),
      )
    })
  }

  /** Logs a change of trouble. Lanes keep the progress that isn't stored, and don't log it. */
  #troubled(message: string): Effect.Effect<void> {
    if (this.trouble === message) return Effect.void
    this.trouble = message
    return message === ""
      ? Effect.logInfo("the progress of the lanes is stored again")
      : Effect.logError(`the progress of the lanes can't be stored, so delivery will soon stop: ${message}`)
  }

  get lanes(): Effect.Effect<ReadonlyArray<LaneInfo>, JournalError> {
    return Effect.map(this.counted, () =>
      this.backlogs.infos(this.readFrom, this.end).map((lane) => ({ ...lane, ...this.owner.pauseOf(lane.name) })),
    )
  }

  get holding(): Effect.Effect<ReadonlyArray<LaneInfo>> {
    return Effect.map(this.counted, () => {
      const paused = [...this.owner.pausedSinks()].flatMap((sink) => this.backlogs.get(sink) ?? [])
      return [...new Set([...this.backlogs.holding(), ...paused])].map((backlog) => this.#info(backlog))
    })
  }

  /** Reads the newest count of dead letters, which limits a lane's stored events. */
  get counted(): Effect.Effect<void> {
    return Effect.map(this.letters.newest, (letters) => {
      const counted = [...letters.keys()].flatMap((lane) => this.backlogs.get(lane) ?? [])
      for (const backlog of new Set([...this.backlogs.holding(), ...counted])) this.#note(backlog, letters)
    })
  }

  #note(backlog: Backlog, letters: ReadonlyMap<string, LetterCount>): void {
    const count = letters.get(backlog.lane)
    backlog.deadLetters = count?.letters ?? 0
    backlog.returned = count?.returned ?? 0
    backlog.letterBytes = count?.bytes ?? new WebhookBytes()
  }

  #info(backlog: Backlog): LaneInfo {
    return { ...backlog.info, ...this.owner.pauseOf(backlog.lane) }
  }

  createLanes(names: ReadonlyArray<string>): Effect.Effect<void, JournalError> {
    return LaneMoves.create(this, names)
  }

  openLane(name: string, options: OpenOptions = {}): Effect.Effect<OpenedLane, JournalError> {
    return Effect.gen({ self: this }, function* () {
      const { renamedFrom, isConfigured = () => true } = options
      yield* this.owner.opened(name, options)
      yield* LaneMoves.open(this, name, { renamedFrom, isConfigured })
      if (renamedFrom !== undefined) yield* this.owner.empty(this, renamedFrom)
      for (const from of this.names.movingTo(name).filter((from) => !isConfigured(from))) {
        yield* completing(this.owner.empty(this, from), from, name, options)
      }
      const wasOpen = this.open.has(name)
      this.open.add(name)
      const backlog = this.backlogs.begun(name, { sequence: this.end, settled: [] })
      // Just after a stream was loaded, memory knows which lanes have retries. Most have none.
      const mayRetry = wasOpen || backlog.retrying.size > 0
      const retries = mayRetry ? yield* refusing(LaneTables.retriesOf(this.owner.db, this.id, name)) : []
      const alerts = this.alerting.has(name) ? yield* refusing(LaneTables.alertsOf(this.owner.db, this.id, name)) : []
      backlog.endRetries()
      for (const { sequence } of retries) backlog.retries(sequence)
      yield* this.counted
      return { ...this.#info(backlog), pausedFor: backlog.pausedFor, retries, alerts }
    })
  }

  limitBacklog(lane: string, max?: number, maxBytes?: number): Effect.Effect<void> {
    return Effect.sync(() => this.backlogs.limit(lane, max, maxBytes))
  }

  /** It takes one round trip. */
  returned(lane: string) {
    return refusing(LaneTables.returnedOf(this.owner.db, this.id, lane))
  }

  /** It takes one round trip for 4 MB of records. */
  readRetries(lane: string, sequences: ReadonlyArray<number>) {
    return Effect.gen({ self: this }, function* () {
      if (this.isLost) return yield* this.fencedError
      const { rows } = yield* refusing(
        this.owner.db.query<{ sequence: number; record: Uint8Array }>(
          `SELECT sequence, record FROM (
             SELECT sequence, record, sum(octet_length(record)) OVER (ORDER BY place) - octet_length(record) AS before, place
             FROM unnest($2::bigint[]) WITH ORDINALITY AS asked(sequence, place) JOIN retry USING (sequence)
             WHERE lane = $1
           ) AS sized WHERE before < ${readBytes} ORDER BY place`,
          [lane, sequences],
        ),
      )
      const entries: Array<Entry> = []
      const lost: Array<number> = []
      for (const { sequence, record } of rows) {
        const entry = decode(record, sequence)
        if (entry === undefined) lost.push(sequence)
        else entries.push(entry)
      }
      if (lost.length > 0) {
        yield* this.transact((queries) =>
          LaneTables.endRetries(
            queries,
            lost.map((sequence) => ({ lane, sequence })),
          ),
        )
        for (const sequence of lost) {
          this.owner.damaged(sequence)
          this.backlogs.get(lane)?.endRetry(sequence)
        }
      }
      return { entries, lost }
    })
  }
}
