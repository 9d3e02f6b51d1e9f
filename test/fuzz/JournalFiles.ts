/**
 * Journal files with changed bytes. An input is a list of changes of a file that
 * a relay wrote, five bytes each: a place among the file's bytes that are not
 * zero, the kind of the change, and a value. Behind a NUL, it is a row of the log.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Cause, Effect, Exit, Logger, Result } from "effect"
import type { Entry } from "../../src/event/Event.ts"
import { JournalError } from "../../src/journal/JournalError.ts"
import { lines as salvaged } from "../../src/journal/sqlite/maintenance/Salvage.ts"
import { attempt, openEngine, start } from "../../src/journal/sqlite/service/OpenEngine.ts"
import * as Record from "../../src/journal/stream/Record.ts"
import { restoreFile, versions } from "../journal/released/Fixtures.ts"
import { optionsAt } from "../journal/samples.ts"
import { Broken, type Play, type Target } from "./Search.ts"

let made: string | undefined
/** A directory, in memory if there is such a place, because a sync takes longer than the rest. */
const folder = (): string => {
  made ??= mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "relay-fuzz-"))
  return made
}
export const removeFiles = (): void => {
  if (made !== undefined) rmSync(made, { recursive: true, force: true })
}
process.once("exit", removeFiles)
const pathOf = (): string => join(folder(), "journal", "journal.db")

/** Opens the journal as a relay does, and reads all of it. */
const read = Effect.provide(
  Effect.scoped(
    Effect.gen(function* () {
      const options = optionsAt(pathOf())
      const engine = yield* openEngine(options)
      yield* Effect.flatMap(
        start(engine, options, () => {}),
        (ready) => ready.await,
      )
      const entries = yield* attempt(() => engine.read(0, 10_000))
      const problems = [
        ...engine.alarm.raised.lines,
        ...(engine.brokenBy === undefined ? [] : [engine.brokenBy.message]),
      ]
      // Not the number of pending events: it is counted by routes, which have no checksum, and lanes don't rely on it.
      const lanes = [...engine.lanes.backlogs.values()].map(({ name, cursor, retrying, deadLetters }) => ({
        ...{ name, deadLetters, cursor: cursor.sequence },
        retrying: [...retrying],
      }))
      return { entries, lanes, problems }
    }),
  ),
  Logger.layer([]),
)

/** Runs work in which a wait for a disk that may recover ends at once. */
const hasty = async <A>(work: () => Promise<A>): Promise<A> => {
  const real = Atomics.wait
  Atomics.wait = () => "timed-out"
  try {
    return await work()
  } finally {
    Atomics.wait = real
  }
}

type Lane = Effect.Success<typeof read>["lanes"][number]

/** Reports whether a lane still has everything of another. It may send more again, because that loses nothing. */
const hasAllOf = (found: Lane, lane: Lane): boolean =>
  found.name === lane.name &&
  found.cursor <= lane.cursor &&
  found.deadLetters >= lane.deadLetters &&
  lane.retrying.every((sequence) => found.retrying.includes(sequence))

const fixture = (): Buffer => {
  mkdirSync(dirname(pathOf()), { recursive: true })
  restoreFile(versions.at(-1) ?? "", pathOf())
  return readFileSync(pathOf())
}

const textOf = (entry: Entry): string => {
  const { body, ...event } = entry.event
  return JSON.stringify([entry.sequence, event, entry.sinks, entry.replayed, Buffer.from(body).toString("base64")])
}

const changed = (file: Buffer, places: Uint32Array, input: Uint8Array): Buffer => {
  let bytes = Buffer.from(file)
  const changes = Buffer.from(input)
  for (let at = 0; at + 5 <= input.length; at += 5) {
    const place = places[changes.readUIntBE(at, 3) % places.length] ?? 0
    const [kind = 0, value = 0] = changes.subarray(at + 3, at + 5)
    const from = places[(value * 257) % places.length] ?? 0
    const page = place - (place % 32_768)
    if (place >= bytes.length) continue
    if (kind < 100) bytes[place] = value
    else if (kind < 160) bytes[place] = (bytes[place] ?? 0) ^ (1 << (value & 7))
    else if (kind < 200) bytes.subarray(place, place + value + 1).fill(0)
    else if (kind < 230) bytes.copyWithin(place, from, from + 16 * value)
    else if (kind < 250) bytes.subarray(page, page + 32_768).fill(value)
    else bytes = bytes.subarray(0, place)
  }
  return bytes
}

/** Puts a file in the journal's place. Only the ballast stays beside it, because it takes the longest to make. */
const write = (bytes: Uint8Array): void => {
  for (const name of readdirSync(dirname(pathOf())))
    if (!name.endsWith("-ballast")) rmSync(join(dirname(pathOf()), name), { recursive: true })
  writeFileSync(pathOf(), bytes)
}

/** Salvages the file. A version that a change has raised a little can only be taken for a newer relay's. */
const salvage = function* () {
  try {
    yield* salvaged(pathOf(), folder())
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith("a newer relay wrote"))) throw error
  }
}

const files = async (): Promise<Play> => {
  const file = fixture()
  const sound = await Effect.runPromise(read)
  const originals = new Set(sound.entries.map(textOf))
  const bodies = new Set(sound.entries.map(({ event }) => Buffer.from(event.body).toString("base64")))
  write(file)
  for (const line of salvaged(pathOf(), folder())) bodies.add(line.bodyBase64)
  const places = Uint32Array.from([...file.keys()].filter((at) => file[at] !== 0 || at % 32_768 < 64))
  return async (input) => {
    write(changed(file, places, input))
    const exit = await hasty(() => Effect.runPromiseExit(read))
    if (Exit.isFailure(exit)) {
      const error = Cause.findError(exit.cause)
      if (Result.isFailure(error) || !(error.success instanceof JournalError)) throw Cause.squash(exit.cause)
    } else {
      const { entries, lanes, problems } = exit.value
      const altered = entries.find((entry) => !originals.has(textOf(entry)))
      if (altered !== undefined) throw new Broken("an altered event is read", textOf(altered))
      if (entries.length < originals.size && problems.length === 0)
        throw new Broken("an event is lost without a report")
      const less = sound.lanes.find((lane) => !lanes.some((found) => hasAllOf(found, lane)))
      if (less !== undefined && problems.length === 0)
        throw new Broken("a lane has less without a report", `${less.name}: ${JSON.stringify(lanes)}`)
    }
    write(changed(file, places, input))
    let count = 0
    for (const { bodyBase64 } of salvage()) {
      count += 1
      if (!bodies.has(bodyBase64)) throw new Broken("an altered event is salvaged", bodyBase64)
    }
    const side = Exit.isSuccess(exit)
      ? exit.value.problems.map((line) => line.replace(/\d+|\/\S+/g, "")).join()
      : "refused"
    return `${side} ${count === 0 ? "nothing salvaged" : ""}`
  }
}

/** Rows of the log, as bytes, with their first sequence and their number of events. */
const rowsOf = () => {
  fixture()
  const db = new DatabaseSync(pathOf(), { readOnly: true })
  const rows = db.prepare("SELECT first, count, bytes FROM log ORDER BY length(bytes) DESC LIMIT 8").all()
  db.close()
  return rows.map(({ first, count, bytes }) => ({
    first: Number(first),
    count: Number(count),
    bytes: bytes as Uint8Array,
  }))
}

const records = (): Play => {
  const rows = rowsOf()
  const all = rows.flatMap(({ first, count, bytes }) => Record.decodeRow(bytes, first, count).stored)
  const originals = new Set(all.map(({ entry }) => textOf(entry)))
  return (input) => {
    const [number = 0, ...rest] = input
    const { first, count } = rows[number % rows.length] ?? { first: 1, count: 1 }
    const bytes = Uint8Array.from(rest)
    const { stored, damaged } = Record.decodeRow(bytes, first, count)
    const decoded = [...stored.map(({ entry }) => entry), ...Record.decodeAll(bytes)]
    const altered = decoded.find((entry) => !originals.has(textOf(entry)))
    if (altered !== undefined) throw new Broken("an altered event is decoded", textOf(altered))
    if (stored.length + damaged.length !== count) throw new Broken("a record is neither decoded nor damaged")
    for (const { entry, origin } of stored) {
      const again = Record.decodeStored(Record.encode(entry, origin), entry.sequence)
      if (again === undefined || textOf(again.entry) !== textOf(entry))
        throw new Broken("a record changes when it is encoded")
      if (Record.decodeOne(bytes, first, entry.sequence) === undefined)
        throw new Broken("one record is not found in its row")
    }
    const pieces = Record.splitRow(bytes, count)
    if (!Buffer.concat(pieces).equals(bytes) && bytes.length > 0) throw new Broken("a row's parts are not the row")
    let heads = 0
    Record.indexFields(bytes, count, (_, fields) => {
      heads += 1
      fields.kind()
    })
    return `${stored.length} of ${count}, ${heads}`
  }
}

export const journal: Target = {
  name: "journal",
  holds:
    "A damaged journal opens or is refused with a known error. No event that is read or salvaged differs from the written one, and no event, retry or dead letter is missing without a report.",
  longest: 8_192,
  most: 3_000,
  seeds: () => [
    new Uint8Array(),
    Buffer.from([1, 0, 0, 1, 1]),
    Buffer.from("an input of twenty bytes, and forty more that change others."),
    ...rowsOf().map(({ bytes }, index) => Buffer.concat([Buffer.from([0, index]), bytes])),
  ],
  open: async () => {
    const [ofFile, ofRecords] = [await files(), records()]
    return (input) => (input[0] === 0 && input.length > 1 ? ofRecords(input.subarray(1)) : ofFile(input))
  },
}
