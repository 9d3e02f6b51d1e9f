/**
 * The wait for a commit. Requests of one commit share the journal's promise,
 * and so they share one deadline and one Effect: a timeout for each request
 * would cost more than all the rest of it.
 */
import { Clock, Duration, Effect, Exit } from "effect"
import { type AppendExit, JournalError, JournalUnavailable } from "../journal/Journal.ts"
import { type Counters, observeCommit } from "./Counters.ts"

/** Waits for a commit, at most `timeout` milliseconds from its first event; the outcome of one that took longer is unknown. */
export type Await = (commit: Promise<AppendExit>, timeout: number) => Promise<AppendExit>

const overdue: AppendExit = Exit.fail(
  new JournalError({ reason: new JournalUnavailable({ message: "the commit took longer than commitTimeout" }) }),
)

interface Group {
  readonly commit: Promise<AppendExit>
  readonly bounded: Promise<AppendExit>
}

export const make = Effect.fnUntraced(function* (commits: Counters["commits"]): Effect.fn.Return<Await> {
  const run = Effect.runPromiseWith(yield* Effect.context<never>())
  const clock = yield* Clock.Clock
  /** The newest group of each timeout: the webhooks of a config have few different ones. */
  const groups = new Map<number, Group>()

  const bound = (commit: Promise<AppendExit>, timeout: number): Promise<AppendExit> => {
    const start = clock.monotonicTimeNanosUnsafe()
    return run(
      Effect.raceFirst(
        Effect.promise(() => commit),
        Effect.as(Effect.sleep(Duration.millis(timeout)), overdue),
      ),
    ).then((exit) => {
      observeCommit(commits, Number(clock.monotonicTimeNanosUnsafe() - start) / 1e9)
      return exit
    })
  }

  return (commit, timeout) => {
    const group = groups.get(timeout)
    if (group?.commit === commit) return group.bounded
    const bounded = bound(commit, timeout)
    groups.set(timeout, { commit, bounded })
    return bounded
  }
})
