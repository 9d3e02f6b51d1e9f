/** The last change of a file, as this process can see it. */
import { stat } from "node:fs/promises"
import { resolve } from "node:path"
import { Effect } from "effect"
import type { EpochMillis } from "../event/Quantities.ts"

export interface FileChange {
  /** The absolute path. */
  readonly path: string
  readonly changedAt: EpochMillis
  /** The path leads to a deleted file: a container mounts the file itself, and another file took its name outside. */
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
