/**
 * Reads the undelivered events of a journal or its salvage, for `journal import`. The
 * command reads the file and sends the relay events, never a path.
 */
import { Effect, Option, Schema } from "effect"
import { type Imported, Kept } from "../../admin/api/ImportLine.ts"
import { maintenance } from "../../journal/Journals.ts"
import { codeOf } from "../../runtime/Errors.ts"
import { readDenial } from "../../runtime/Files.ts"
import { type CommandError, failed, io } from "./CommandError.ts"
import { lazily } from "./Program.ts"

/** The limits of a request: events, and bytes of their bodies. */
const slice = { events: 200, bytes: 1024 * 1024 }

interface Report extends Imported {
  /** Records and lines that could not be read. */
  readonly damaged: number
}

const decode = Schema.decodeUnknownOption(Kept)

/** Fails if no event could be read from a file. Only a journal may have none. */
const refuse = (path: string, isJournal: boolean, damaged: number) => {
  if (isJournal && damaged === 0) return Effect.void
  const records = "none of its records can be read"
  if (isJournal) return failed(`${path} is a journal, but ${records}: import a backup or another copy of it`)
  const why = damaged === 0 ? "" : `: ${records}`
  return failed(`${path} is neither a journal nor a salvage of one${why}\n  Correct the path.`)
}

/** Sends the file's undelivered events in slices. Returns the total of the answers. */
export const read = <E, R>(
  path: string,
  send: (events: ReadonlyArray<Kept>, share: number, sofar: number) => Effect.Effect<Imported, E, R>,
): Effect.Effect<Report, E | CommandError, R> =>
  Effect.gen(function* () {
    const all = { pending: 0, deadLetters: 0, known: 0, damaged: 0 }
    const strange = new Map<string, number>()
    const { items } = yield* lazily(maintenance)
    const source = yield* Effect.acquireRelease(
      Effect.sync(() => items(path)),
      (source) => Effect.sync(() => source.return(false)),
    )
    const next = Effect.try({
      try: () => source.next(),
      catch: (error) => {
        if (codeOf(error) === "ENOENT") return io(`${path} can't be read: there is no such file.`)
        const denial = readDenial(path)
        if (denial !== undefined) return io(`${path} can't be read: ${denial}`)
        return io(`${path} can't be read: ${error instanceof Error ? error.message : "unknown error"}.`)
      },
    })
    let events: Array<Kept> = []
    let bytes = 0
    let sofar = 0
    let readable = 0
    const flush = Effect.fnUntraced(function* (share: number) {
      if (events.length === 0) return
      sofar += events.length
      const imported = yield* send(events, share, sofar)
      events = []
      bytes = 0
      all.pending += imported.pending
      all.deadLetters += imported.deadLetters
      all.known += imported.known
      for (const { lane, count } of imported.strange) strange.set(lane, (strange.get(lane) ?? 0) + count)
    })
    let one = yield* next
    for (; one.done !== true; one = yield* next) {
      const { line, share } = one.value
      const kept = Option.getOrUndefined(decode(line))
      if (kept === undefined) all.damaged++
      else readable++
      if (kept === undefined || kept.pending.length === 0) continue
      if (events.length >= slice.events || bytes + kept.bodyBase64.length > slice.bytes) yield* flush(share)
      events.push(kept)
      bytes += kept.bodyBase64.length
    }
    yield* flush(1)
    if (readable === 0) yield* refuse(path, one.value, all.damaged)
    return { ...all, strange: [...strange].map(([lane, count]) => ({ lane, count })) }
  }).pipe(Effect.scoped)
