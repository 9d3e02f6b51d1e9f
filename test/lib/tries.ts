/**
 * How many of its cases a property or a seeded history tries. A plain `bun test`
 * tries a tenth, so that it ends within a minute, and the binary alone where a
 * test is of every runtime; with RELAY_PARTS=1, as in `.ci/run`, and for files
 * that are named, it tries all of them.
 */
import process from "node:process"

/** What `inParallel.ts` sets in a plain `bun test`. */
export const fewTries = { RELAY_TRIES: "tenth" } as const

const triesFew = process.env.RELAY_TRIES === fewTries.RELAY_TRIES

/** At least one, so that each property is tried. */
export const tries = (all: number): number => (triesFew ? Math.ceil(all / 10) : all)

/** Why a plain run leaves out a rehearsal of seconds; for `suiteUnless`. */
export const leftOut = triesFew
  ? "it takes seconds, and a plain run has a minute: RELAY_PARTS=1 or the file's name runs it"
  : undefined

/** The program on each runtime; in a plain run the binary alone, as in all other tests of the whole program. */
export const onEach = <A>(programs: { readonly "the binary": A } & Readonly<Record<string, A>>) =>
  Object.entries<A>(programs).filter(([name]) => !triesFew || name === "the binary")

/** As many of all cases that there are, drawn from the whole of them. */
export const sample = <A>(all: ReadonlyArray<A>, count = tries(all.length)): ReadonlyArray<A> =>
  Array.from({ length: count }, (_, index) => all[Math.floor((index * all.length) / count)] as A)
