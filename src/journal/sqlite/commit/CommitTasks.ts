/** Work in the next commit other than events: settlements, and the journal's own notes. */
import type { Exit } from "effect"
import type { JournalError } from "../../JournalError.ts"
import type { Committed } from "./LaneStore.ts"

/** `apply` runs in the transaction. The function that it returns runs after the commit, and `done` runs last. */
export interface Task {
  readonly apply: () => Committed
  readonly done: (exit: Exit.Exit<void, JournalError>) => void
}

/** The waiting tasks, in order. */
export class CommitTasks {
  #waiting: Array<Task> = []

  add(task: Task): void {
    this.#waiting.push(task)
  }

  /** Returns all waiting tasks, for a commit. */
  take(): ReadonlyArray<Task> {
    const taken = this.#waiting
    this.#waiting = []
    return taken
  }

  /** Puts tasks back that couldn't be committed now, before tasks that were added since. */
  putBack(tasks: ReadonlyArray<Task>): void {
    this.#waiting = [...tasks, ...this.#waiting]
  }

  fail(exit: Exit.Exit<never, JournalError>): void {
    for (const task of this.take()) task.done(exit)
  }
}
