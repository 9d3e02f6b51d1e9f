import { describe, test } from "bun:test"

/**
 * A suite that needs what a machine may lack, or what must be asked for. Where
 * it is `lacking`, one line in its place says so, among the tests and at the
 * end of the run: a hundred lines without a reason would hide it.
 */
export const suiteUnless = (lacking: string | undefined, title: string, body: () => void): void =>
  describe(title, () => {
    if (lacking === undefined) return body()
    // `.ci/run` repeats these lines above its total.
    console.warn(`skipped: ${title}: ${lacking}`)
    test.skip(lacking)
  })
