/**
 * The tests whose failure always is a defect, because they say whether an event was lost, altered, out of order,
 * duplicated or reported wrongly. The first such failure ends the run, and the test is never tried again.
 */
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"

const alwaysDefects = [
  // The simulations and the campaign's mutants.
  "test/faults/**",
  // They count events that a sink or a journal lost, repeated or reordered.
  "test/journal/postgres/LostAnswers.test.ts",
  "test/sinks/kafka/Kafka{Cluster,Faults,Frozen}.test.ts",
].map((pattern) => new Bun.Glob(pattern))

/** Test files that run a contract of `test/contract`. Others import its samples alone. */
const contract = /import \{[^}]*\b\w+Contract\b[^}]*\} from "[./]+contract\//

export const isDefect = (root: string, file: string): boolean => {
  const path = join(root, file)
  return (
    alwaysDefects.some((glob) => glob.match(file)) || (existsSync(path) && contract.test(readFileSync(path, "utf8")))
  )
}
