/** Guards of the journal and of the process, each removed on purpose. */
import { mutantsOf } from "../Line.ts"

const journal = (file: string): string => `src/journal/${file}.ts`

export const mutants = mutantsOf({
  "test/journal/archive/Erasure.test.ts": {
    "an erased event that is sent again is a duplicate": [
      journal("archive/Erasure"),
      "key: [hi, lo, bodyCrc]",
      "key: [lo, hi, bodyCrc]",
    ],
  },
  "test/journal/sqlite/SqliteJournal.test.ts": {
    "an erased dead letter has no answer of the sink": [
      journal("archive/Erasure"),
      "letterColumns(erased, withoutAnswers(attempts))",
      "letterColumns(erased, attempts)",
    ],
    "a new name is there after a restart": [
      journal("sqlite/commit/LaneStore"),
      "    for (const row of rows) this.put(row)\n",
      "",
    ],
    "an empty lane is removed in the transaction that found it empty": [
      journal("sqlite/service/SqliteLanes"),
      "size() > 0 ? { result: false }",
      "size() < 0 ? { result: false }",
    ],
    "a move that was cut short continues after another rename": [
      journal("sqlite/service/SqliteLanes"),
      "to === ids.idOf(name))",
      "to === ids.idOf(name) && from === renamedFrom)",
    ],
    "an erasure ends a pending event at its sink": [
      journal("archive/Erasure"),
      "wanted: sequences, givenUp, left: []",
      "wanted: sequences, givenUp: [], left: []",
    ],
  },
  "test/journal/MemoryJournal.test.ts": {
    "an event is listed in the lane that it was moved to": [
      journal("stream/SearchResult"),
      "...new Set([...movedTo, ",
      "...new Set([",
    ],
    "a replay that is moved keeps its idempotency key": [
      journal("stream/BulkSlices"),
      "  replayed ? { ...event,",
      "  replayed && event.replay !== undefined ? { ...event,",
    ],
  },
  "test/journal/postgres/lanes/LaneChange.test.ts": {
    "a late settlement does not bring back a lane that was dropped": [
      journal("postgres/tables/DatabaseSchema"),
      "FROM jsonb_each(changed) WHERE lanes ? key",
      "FROM jsonb_each(changed)",
    ],
    "a moved lane that has other events by now is not removed": [
      journal("postgres/lanes/LaneChange"),
      "before.movingFrom(name)?.after !== moved",
      "before.movingFrom(name)?.after === -1",
    ],
    "the events of a dropped lane that other relays have just added are counted": [
      journal("postgres/lanes/StreamLoading"),
      "if (lanes.includes(lane)) pending.routed(sequence)",
      "void lanes",
    ],
    "the events of a lane that another relay opened again are not moved": [
      journal("postgres/append/LaneEmptying"),
      " AND names -> $3 ->> 'after' = $5",
      " AND $5::text IS NOT NULL",
    ],
  },
  descriptors: {
    "no listener closes while descriptors are used up": [
      "src/runtime/PausableListener.ts",
      "for (const listener of this.sharing) this.end(listener)",
      "",
    ],
  },
  "kill-9": {
    "a delivery is answered before its commit": [
      "src/ingest/Ingest.ts",
      "await committed(appended, authentic.receiver.commitTimeout)",
      `(void committed(appended, authentic.receiver.commitTimeout), { _tag: "Success" } as unknown as Awaited<typeof appended>)`,
    ],
  },
  "power-cut": {
    "commits are not synced": [
      journal("sqlite/file/Store"),
      "PRAGMA synchronous = FULL",
      "PRAGMA synchronous = NORMAL",
    ],
    "garbage between lines of a file sink's output stays": [
      "src/sinks/file/TornLines.ts",
      "  for (const { from, to } of inner) await blank(path, from, to)\n",
      "",
    ],
  },
  "file-frozen": {
    "the unit asks for no more threads than there are files that stand still": [
      "config/deploy/relay.service",
      "UV_THREADPOOL_SIZE=64",
      "UV_THREADPOOL_SIZE=2",
    ],
    "a write to a file has a timeout, and is made again when it ends": [
      "src/delivery/lane/InFlight.ts",
      "if (isAwaited) stalled",
      "if (isAwaited === undefined) stalled",
    ],
  },
  "disk-errors": {
    "a failed sync is not final": [
      journal("sqlite/file/SqliteFailure"),
      "if (primary(errorCode(error)) === 10) {",
      "if (primary(errorCode(error)) === 99) {",
    ],
    "a failed sync of the checkpointer's own is ignored": [
      journal("sqlite/JournalWorker"),
      "{ errcode: failedSync }",
      "{}",
    ],
    "a full disk ends the checkpoints": [journal("sqlite/JournalWorker"), "if (isFinal(error)) end()", "end()"],
    "a file that seems damaged is not read again": [
      journal("sqlite/file/Store"),
      "  for (const wait of looksAfter) {",
      "  for (const wait of looksAfter.slice(3)) {",
    ],
  },
  "disk-full": {
    "none of the disk stays free": [
      journal("sqlite/file/Space"),
      "this.#diskWasFull || this.#room < this.#minFree)",
      "this.#diskWasFull)",
    ],
    "free pages of the file are no room": [
      journal("sqlite/file/Space"),
      "free + Math.min(free, this.#reusableBytes)",
      "free",
    ],
    "there is no ballast": [journal("sqlite/file/Space"), "      this.ballast.keep()\n", ""],
  },
  "damaged-journal": {
    "what was imported is not noted": [
      journal("sqlite/service/SqliteArchive"),
      "    for (const { journal, sequence, lanes } of imported) note.run(journal, sequence, JSON.stringify(lanes))\n",
      "",
    ],
    "a damaged first page is not mended in a copy": [
      journal("sqlite/maintenance/Repair"),
      "  (file, directory) => replaceStart(file, directory, usualPage),\n",
      "",
    ],
    "a body's checksum is not compared": [
      journal("stream/Record"),
      "if (crc32(body) !== bytes.readUInt32LE(offset + 8)) return undefined",
      "",
    ],
    "a cursor's checksum is not compared": [
      journal("sqlite/rows/CursorRows"),
      "crc !== checksum(row.name, row.sequence, row.settled)",
      "false",
    ],
    "a lane does not pass over damaged events at the end of the log": [
      "src/delivery/lane/Intake.ts",
      "progress.pass(yield* log.pastLost(progress.position))",
      "{}",
    ],
    "nobody reads how far the journal had come": [
      journal("sqlite/file/Store"),
      "expected: readMark(",
      "expected: ((_: string): undefined => undefined)(",
    ],
  },
  "file-taken-away": {
    "the files' inodes are not looked at": [
      journal("sqlite/file/Store"),
      "if (found.ino !== known.inode) return",
      "if (found.ino === -1) return",
    ],
  },
  clock: {
    "a clock that was set is trusted": [journal("WallClock"), "Math.abs(drift()) <= tolerance", "true"],
    "a stored wait has no longest": [
      "src/delivery/lane/LaneClock.ts",
      "Math.min(Math.max(due - now, 0), delay)",
      "Math.max(due - now, 0)",
    ],
  },
  sigterm: {
    "a drain waits for what does not end": [
      "src/delivery/lane/InFlight.ts",
      'Effect.timeoutOption(Effect.forEach(fibers, Fiber.await, { concurrency: "unbounded" }), grace)',
      'Effect.forEach(fibers, Fiber.await, { concurrency: "unbounded" })',
    ],
  },
  "second-instance": {
    "the journal's file itself is held": [
      journal("sqlite/file/JournalLock"),
      "if (found === undefined || this.#files.has(found.ino)) return",
      "if (found === undefined || found.ino > 0) return",
    ],
  },
  soak: {
    "checkpoints are not made": [
      journal("sqlite/JournalWorker"),
      "interval = { busy: 100, calm: 400 }",
      "interval = { busy: 1e9, calm: 1e9 }",
    ],
  },
})
