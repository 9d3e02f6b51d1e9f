/** What Effect's file system does not tell of a disk. */
import { statfs } from "node:fs/promises"
import { Effect } from "effect"

/** Bytes that a user without privileges may still write to the disk of `path`; `undefined` where it can't be told. */
export const freeBytes = (path: string): Effect.Effect<number | undefined> =>
  Effect.promise(() =>
    statfs(path).then(
      ({ bavail, bsize }) => bavail * bsize,
      () => undefined,
    ),
  )
