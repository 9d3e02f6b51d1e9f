/**
 * A small file that is nice to have: replaced as a whole, so a crash leaves the
 * one before. It is not synced, and a disk that fails costs only what is in it.
 */
import { readFile, rename, rm, writeFile } from "node:fs/promises"
import { Effect } from "effect"

/** A disk that does not answer must not hold up a stop. */
const patience = "2 seconds"

/** The file at a path. */
export const at = (path: string) => ({
  /** Its text; `undefined` where there is none, or none that can be read. */
  read: Effect.tryPromise(() => readFile(path, "utf8")).pipe(
    Effect.timeout(patience),
    Effect.orElseSucceed(() => undefined),
  ),
  /** Replaces its text, which only this user can read. Never fails, and takes two seconds at most. */
  replace: (text: string): Effect.Effect<void> =>
    Effect.tryPromise(async () => {
      // Never through a link: a crash may have left the file, and nothing else is expected there.
      await rm(`${path}.new`, { force: true })
      await writeFile(`${path}.new`, text, { mode: 0o600, flag: "wx" })
      await rename(`${path}.new`, path)
    }).pipe(Effect.timeout(patience), Effect.ignore),
})
