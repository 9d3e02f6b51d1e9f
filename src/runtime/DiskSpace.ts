/** Free disk space, which Effect's file system does not have. */
import { statfs } from "node:fs/promises"
import { Effect } from "effect"

/** Bytes that an unprivileged user may still write to the disk of `path`; `undefined` where that is unknown. */
export const freeBytes = (path: string): Effect.Effect<number | undefined> =>
  Effect.promise(() =>
    statfs(path).then(
      ({ bavail, bsize }) => bavail * bsize,
      () => undefined,
    ),
  )
