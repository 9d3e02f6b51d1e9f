/** File operations that Effect's file system does not have. */
import { readFile, rename, rm, stat, statfs, writeFile } from "node:fs/promises"
import { resolve } from "node:path"
import { Effect } from "effect"
import type { EpochMillis } from "../event/Quantities.ts"

/** The last change of a file, as this process can see it. */
interface FileChange {
  /** The absolute path. */
  readonly path: string
  readonly changedAt: EpochMillis
  /**
   * The path leads to a deleted file. This happens if a container mounts the file itself, and outside, another file has
   * replaced it.
   */
  readonly isReplaced: boolean
}

/** Returns `undefined` if the file can't be examined. */
export const lastChange = (file: string): Effect.Effect<FileChange | undefined> =>
  Effect.orElseSucceed(
    Effect.tryPromise(async () => {
      const path = resolve(file)
      const { mtimeMs, nlink } = await stat(path)
      return { path, changedAt: Math.floor(mtimeMs), isReplaced: nlink === 0 }
    }),
    () => undefined,
  )

/** Bytes that an unprivileged user may still write to the disk of `path`. `undefined` if unknown. */
export const freeBytes = (path: string): Effect.Effect<number | undefined> =>
  Effect.promise(() =>
    statfs(path).then(
      ({ bavail, bsize }) => bavail * bsize,
      () => undefined,
    ),
  )

// A small optional file. It is replaced as a whole, so a crash leaves the previous one. It is not
// synced, so a failing disk loses only its content.

/** A disk that does not respond must not delay a stop. */
const stateTimeout = "2 seconds"

/** The file at a path. */
export const stateFile = (path: string) => ({
  /** Its text. `undefined` if the file is missing or can't be read. */
  read: Effect.tryPromise(() => readFile(path, "utf8")).pipe(
    Effect.timeout(stateTimeout),
    Effect.orElseSucceed(() => undefined),
  ),
  /** Replaces the text. Only this user can read the file. Never fails, and takes two seconds at most. */
  replace: (text: string): Effect.Effect<void> =>
    Effect.tryPromise(async () => {
      // Removed first, because a crash may have left the file, and so that the write never follows a link.
      await rm(`${path}.new`, { force: true })
      await writeFile(`${path}.new`, text, { mode: 0o600, flag: "wx" })
      await rename(`${path}.new`, path)
    }).pipe(Effect.timeout(stateTimeout), Effect.ignore),
})
