/** Work that is part of the next commit, beside the events: settlements, and what the journal notes for itself. */
import type { Exit } from "effect"
import type { JournalError } from "../../JournalError.ts"
import type { Committed } from "./LaneStore.ts"

/** `apply` runs in the transaction, the function that it returns after the commit, and `done` last. */
export interface Task {
  readonly apply: () => Committed
  readonly done: (exit: Exit.Exit<void, JournalError>) => void
}

/** The tasks that wait, in order. */
export class CommitTasks {
  #waiting: Array<Task> = []

  add(task: Task): void {
    this.#waiting.push(task)
  }

  /** All that wait, for a commit. */
  take(): ReadonlyArray<Task> {
    const taken = this.#waiting
    this.#waiting = []
    return taken
  }

  /** They could not be committed now: they come before what was added since. */
  putBack(tasks: ReadonlyArray<Task>): void {
    this.#waiting = [...tasks, ...this.#waiting]
  }

  fail(exit: Exit.Exit<never, JournalError>): void {
    for (const task of this.take()) task.done(exit)
  }
}
