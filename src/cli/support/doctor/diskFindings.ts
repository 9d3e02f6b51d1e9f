/** Checks the journal's disk: write permission, the time of a sync, free space. Leaves no file behind. */
import { Duration, Effect, FileSystem, Option, Path, type PlatformError, Result } from "effect"
import type { Bytes, Millis } from "../../../event/Quantities.ts"
import type { JournalFile } from "../../../journal/JournalType.ts"
import * as FileOwner from "../../../runtime/FileOwner.ts"
import { withDeadline } from "../deadline.ts"
import { bytes } from "../output.ts"
import { lazily } from "../Program.ts"
import { finder, type Verdict } from "./Finding.ts"

/** Every answer waits for a sync. */
const slowSync: Millis = 100
const syncs = 5

/** The time that a small write takes to be on disk: the median of several. */
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

/** The directory, or the nearest parent that exists: the relay creates what is missing. */
const nearestExisting = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  let found = path.resolve(directory)
  // A directory without permission counts as missing.
  const isThere = Effect.suspend(() => Effect.orElseSucceed(fs.exists(found), () => false))
  while (!(yield* isThere) && path.dirname(found) !== found) found = path.dirname(found)
  return found
})

const sizeOf = (path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.match(fs.stat(path), { onSuccess: ({ size }) => Number(size), onFailure: () => 0 }),
  )

const refused = (what: string, { reason }: PlatformError.PlatformError, of = ""): readonly [Verdict, string] => {
  if (reason._tag === "BadResource") return ["wrong", `${what} is a file, not a directory: correct "journal.path"`]
  const why = reason._tag === "PermissionDenied" ? "permission denied" : (reason.description ?? reason._tag)
  return [
    "wrong",
    `${what} can't be written (${why}${of}): make it writable for the relay's user, or run this command as that user`,
  ]
}

/** An existing journal, or a file beside it, may belong to another user, as which the relay once ran. */
const mayWrite = (file: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const [mayAccess, found] = yield* Effect.all([
      Effect.result(fs.access(file, { writable: true })),
      Effect.option(fs.stat(file)),
    ])
    if (Result.isSuccess(mayAccess) || mayAccess.failure.reason._tag !== "PermissionDenied") return []
    const of = Option.match(found, {
      onNone: () => "",
      onSome: ({ uid, mode }) =>
        `; it belongs to the user ${Option.getOrElse(uid, () => "?")} and has the mode ${(mode & 0o7777).toString(8).padStart(4, "0")}`,
    })
    return [refused(`the journal's file ${file}`, mayAccess.failure, of)]
  })

const beside = ["", "-wal", "-shm", "-lock", "-mark"]

const check = Effect.fnUntraced(function* ({ path: journal, maxSize, minFree }: JournalFile) {
  const { freeBytes } = yield* lazily(() => import("../../../runtime/DiskSpace.ts"))
  const directory = (yield* Path.Path).dirname(journal)
  const nearest = yield* nearestExisting(directory)
  const at = finder("disk", directory)
  const shown = (yield* Path.Path).resolve(directory) === nearest ? directory : nearest
  const isUnknown = ({ reason }: PlatformError.PlatformError) =>
    reason._tag === "PermissionDenied" && FileOwner.isOfServiceUser(nearest)
  const written = yield* Effect.result(timeSync(nearest))
  const writing = Result.match(written, {
    onSuccess: sync,
    onFailure: (error): readonly [Verdict, string] =>
      isUnknown(error)
        ? ["warning", `${shown} ${FileOwner.unchecked}`]
        : refused(`the journal's directory ${shown}`, error),
  })
  const own =
    Result.isFailure(written) && isUnknown(written.failure)
      ? []
      : (yield* Effect.forEach(beside, (suffix) => mayWrite(journal + suffix))).flat()
  const used = (yield* sizeOf(journal)) + (yield* sizeOf(`${journal}-wal`))
  return [
    at(...writing),
    ...own.map((found) => at(...found)),
    at(...room({ free: yield* freeBytes(nearest), used, maxSize, minFree })),
  ]
})

export const disk = (journal: JournalFile) =>
  withDeadline((time) =>
    Effect.succeed([finder("disk", journal.path)("wrong", `the disk does not answer within ${time}`)]),
  )(check(journal))

export const sync = (took: Millis): readonly [Verdict, string] =>
  took > slowSync
    ? ["warning", `a sync takes ${took.toFixed(0)} ms, and every answer waits for one: use a faster disk`]
    : ["ok", `writable; a sync takes ${took.toFixed(1)} ms`]

interface Room {
  /** Free on the disk, used by the journal, and the limits of the config. */
  readonly free: Bytes | undefined
  readonly used: Bytes
  readonly maxSize: Bytes
  readonly minFree: Bytes
}

export const room = ({ free, used, maxSize, minFree }: Room): readonly [Verdict, string] => {
  if (free === undefined) return ["warning", "the free space is unknown here"]
  const left = `${bytes(free)} free`
  if (free < minFree) {
    return [
      "wrong",
      `${left}, and ${bytes(minFree)} must stay free (journal.minFree): deliveries get a 503 until space is freed`,
    ]
  }
  const growth = Math.max(0, maxSize - used)
  return free - minFree < growth
    ? [
        "warning",
        `${left}, but the journal may grow by ${bytes(growth)} (journal.maxSize): the disk fills first; free space, or lower maxSize`,
      ]
    : ["ok", `${left}, enough for a journal of ${bytes(maxSize)}`]
}
