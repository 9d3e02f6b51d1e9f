/**
 * Reduces the work of a plain `bun test` so that it ends within a minute. It leaves out rehearsals, tries a tenth of
 * the cases of a property or a seeded history, and runs only the binary if a test is for every runtime. With
 * RELAY_PARTS=1, as in `.ci/run`, and for named files, it does all of that.
 */
import process from "node:process"

/** The variables that `inParallel.ts` sets in a plain `bun test`. */
export const fewTries = { RELAY_TRIES: "tenth" } as const

const triesFew = process.env.RELAY_TRIES === fewTries.RELAY_TRIES

/** At least one, so that each property is tried. */
export const tries = (all: number): number => (triesFew ? Math.ceil(all / 10) : all)

/** Files whose tests start other programs again and again, or take seconds. They take half of the time of all tests. */
export const rehearsals = [
  "test/ci/Run.test.ts",
  "test/cli/support/completions.test.ts",
  "test/docs/{commands,verifying}.test.ts",
  "test/delivery/Warnings.test.ts",
  "test/e2e/{admin,canary,certificates,containment,descriptors,environment,live,metrics}.test.ts",
  "test/e2e/{quarantine,reload,service,stdio,terminal,trace,upgrade}.test.ts",
  "test/faults/simulation/Simulation.test.ts",
  "test/journal/sqlite/{JournalWorker,Room}.test.ts",
  "test/journal/sqlite/file/JournalLock.test.ts",
  "test/journal/sqlite/search/Index.test.ts",
  "test/release/*.test.ts",
  "test/reload/{LargeConfig,RefusedListener}.test.ts",
  "test/runtime/Renewal.test.ts",
  "test/sinks/**/*Program.test.ts",
  "test/sinks/causes/*.test.ts",
  "test/sinks/http/HttpTls.test.ts",
  "test/sinks/kafka/KafkaClosed.test.ts",
  "test/sinks/nats/NatsGreeting.test.ts",
]

/** The program on each runtime; in a plain run the binary alone, as in all other tests of the whole program. */
export const onEach = <A>(programs: { readonly "the binary": A } & Readonly<Record<string, A>>) =>
  Object.entries<A>(programs).filter(([name]) => !triesFew || name === "the binary")

/** Returns `count` cases, spread evenly over all cases. */
export const sample = <A>(all: ReadonlyArray<A>, count = tries(all.length)): ReadonlyArray<A> =>
  Array.from({ length: count }, (_, index) => all[Math.floor((index * all.length) / count)] as A)
