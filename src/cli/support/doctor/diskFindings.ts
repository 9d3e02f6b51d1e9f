/** The journal's disk: may it be written, how long is a sync, and is there room? Nothing is left behind. */
import { Duration, Effect, FileSystem, Path, type PlatformError } from "effect"
import type { JournalFile } from "../../../journal/JournalType.ts"
import { patience } from "../checkSinks.ts"
import { bytes } from "../output.ts"
import { lazily } from "../Program.ts"
import { type Findings, finder, type Verdict } from "./Finding.ts"

/** A sync that takes longer makes every answer wait for it. */
const slowSync = 100
const syncs = 5

/** Milliseconds that a small write to a new file in the directory takes to be on disk: the middle of some. */
const timeSync = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* fs.makeTempFileScoped({ directory, prefix: ".relay-doctor-" })
  const file = yield* fs.open(path, { flag: "w" })
  const times: Array<number> = []
  for (let n = 0; n < syncs; n++) {
    yield* file.writeAll(new Uint8Array(4096))
    const [took] = yield* Effect.timed(file.sync)
    times.push(Duration.toMillis(took))
  }
  return times.toSorted((a, b) => a - b)[syncs >> 1] ?? 0
}, Effect.scoped)

/** The directory, or the nearest above it that is there: the relay makes what is missing. */
const standing = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  let found = path.resolve(directory)
  // What may not be looked at is as good as missing.
  const isThere = Effect.suspend(() => Effect.orElseSucceed(fs.exists(found), () => false))
  while (!(yield* isThere) && path.dirname(found) !== found) found = path.dirname(found)
  return found
})

const sizeOf = (path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.match(fs.stat(path), { onSuccess: ({ size }) => Number(size), onFailure: () => 0 }),
  )

const refused = (what: string, { reason }: PlatformError.PlatformError): readonly [Verdict, string] => {
  const why = reason._tag === "PermissionDenied" ? "this user may not" : (reason.description ?? reason._tag)
  return ["wrong", `${what} can't be written (${why}): give it to the relay's user, or run doctor as that user`]
}

/** Whether the journal's file, where there is one, may be written: a relay that once ran as another user leaves one. */
const mayWrite = (journal: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.catchIf(
      fs.access(journal, { writable: true }),
      ({ reason }) => reason._tag !== "PermissionDenied",
      () => Effect.void,
    ),
  )

const look = Effect.fnUntraced(function* ({ path: journal, maxSize, minFree }: JournalFile) {
  const { freeBytes } = yield* lazily(() => import("../../../runtime/DiskSpace.ts"))
  const directory = (yield* Path.Path).dirname(journal)
  const nearest = yield* standing(directory)
  const at = finder("disk", directory)
  const writing = yield* Effect.match(timeSync(nearest), {
    onSuccess: (took) => at(...sync(took)),
    onFailure: (error) => at(...refused(`the journal's directory ${nearest}`, error)),
  })
  const own = yield* Effect.match(mayWrite(journal), {
    onSuccess: (): Findings => [],
    onFailure: (error) => [at(...refused(`the journal ${journal}`, error))],
  })
  const used = (yield* sizeOf(journal)) + (yield* sizeOf(`${journal}-wal`))
  return [writing, ...own, at(...room({ free: yield* freeBytes(nearest), used, maxSize, minFree }))]
})

/** A disk that hangs, as one of the network may, is told too. */
export const disk = (journal: JournalFile) =>
  Effect.timeoutOrElse(look(journal), {
    duration: patience,
    orElse: () =>
      Effect.succeed([
        finder("disk", journal.path)("wrong", `the disk does not answer within ${Duration.format(patience)}`),
      ]),
  })

/** Of a sync that took so many milliseconds. */
export const sync = (took: number): readonly [Verdict, string] =>
  took > slowSync
    ? ["warning", `a sync takes ${took.toFixed(0)} ms, and every answer waits for one: it wants a faster disk`]
    : ["ok", `can be written; a sync takes ${took.toFixed(1)} ms`]

export interface Room {
  /** Bytes, as are the others: free on the disk, used by the journal, and what the config sets. */
  readonly free: number | undefined
  readonly used: number
  readonly maxSize: number
  readonly minFree: number
}

export const room = ({ free, used, maxSize, minFree }: Room): readonly [Verdict, string] => {
  if (free === undefined) return ["warning", "how much space is free can't be read here"]
  const left = `${bytes(free)} free`
  if (free < minFree) {
    return [
      "wrong",
      `${left}, and ${bytes(minFree)} must stay so (journal.minFree): deliveries are answered 503 until space is freed`,
    ]
  }
  const growth = Math.max(0, maxSize - used)
  return free - minFree < growth
    ? [
        "warning",
        `${left}, but the journal may grow by ${bytes(growth)} (journal.maxSize): the disk would be full first; free space, or lower maxSize`,
      ]
    : ["ok", `${left}, enough for a journal of ${bytes(maxSize)}`]
}
