/** Guards of the relay's promise, each removed: within a thousand seeds the oracle must notice. */
import type { Mutant } from "../Line.ts"

const line = "simulation"

export const mutants: ReadonlyArray<Mutant> = [
  {
    gone: "the cursor stays below an event that is not settled",
    file: "src/delivery/Window.ts",
    find: "return { sequence: lowest - 1, settled",
    replace: "return { sequence: lowest, settled",
    line,
  },
  {
    gone: "what settled above the cursor is stored with it",
    file: "src/delivery/Window.ts",
    find: "settled: settled.concat(this.#unseen())",
    replace: "settled: []",
    line,
  },
  {
    gone: "a parked event holds its key",
    file: "src/delivery/Parking.ts",
    find: 'return key !== "" && this.#keys.has(key)',
    replace: "return false",
    line,
  },
  {
    gone: "two batches of one key are never under way together",
    file: "src/delivery/Queue.ts",
    find: "          waiting.push(item)\n          continue",
    replace: "          waiting.push()",
    line,
  },
  {
    gone: "dead letters go with the settlement",
    file: "src/delivery/Changes.ts",
    find: "bury: [...this.#bury.values()]",
    replace: "bury: []",
    line,
  },
  {
    gone: "what could not be stored goes with the next settlement",
    file: "src/delivery/Changes.ts",
    find: "if (!this.#park.has(one.sequence) && !since(one.sequence)) this.#park.set(one.sequence, one)",
    replace: "since(one.sequence)",
    line,
  },
  {
    gone: "an attempt has a deadline",
    file: "src/delivery/Flights.ts",
    find: "return now - flight.startedAt >= this.#timeout",
    replace: "return false",
    line,
  },
  {
    gone: "nothing is given up by age while the wall clock can't be trusted",
    file: "src/delivery/Landing.ts",
    find: " && wallClockTrusted()",
    replace: "",
    line,
  },
  {
    gone: "what a crash may repeat is bounded",
    file: "src/delivery/Lane.ts",
    find: "this.ledger.unstored >= maxUnstored",
    replace: "this.ledger.unstored < 0",
    line,
  },
  {
    gone: "pruning waits for the slowest lane",
    file: "src/journal/Retention.ts",
    find: "Math.min(engine.lanes.passed, engine.head - 1)",
    replace: "engine.head - 1",
    line,
  },
  {
    gone: "the duplicates of before a restart are known after it",
    file: "src/journal/Recovery.ts",
    find: "if (remembered && delivered) {",
    replace: "if (remembered && !delivered) {",
    line,
  },
  {
    gone: "a failed commit frees its keys",
    file: "src/journal/Engine.ts",
    find: "this.duplicates.rollback()",
    replace: "this.duplicates.commit()",
    line,
  },
  {
    gone: "an answer comes after the commit",
    file: "src/journal/SqliteJournal.ts",
    find: "if (exit !== undefined) resume(exit)",
    replace: 'resume(exit ?? Effect.succeed("appended"))',
    line,
  },
  {
    gone: "a lane's pause outlives a restart",
    file: "src/delivery/Lane.ts",
    find: "options.state.paused",
    replace: "false",
    line,
  },
]
