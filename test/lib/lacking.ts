import { describe, test } from "bun:test"

/**
 * A suite that needs a part that a machine may lack, or a flag. If it is `lacking`, one line among the tests and at the
 * end of the run gives the reason. A hundred skipped tests without a reason would hide it.
 */
export const suiteUnless = (lacking: string | undefined, title: string, body: () => void): void =>
  describe(title, () => {
    if (lacking === undefined) return body()
    // `.ci/run` repeats these lines above its total.
    console.warn(`skipped: ${title}: ${lacking}`)
    test.skip(lacking)
  })
