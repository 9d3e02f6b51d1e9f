/**
 * The wait for a commit. Requests of one commit share the journal's promise,
 * and so they share one deadline, which one sweep looks after: a timer for each
 * request, or a fiber for each commit, would cost more than the bookkeeping of
 * all the requests together.
 */
import { Clock, Duration, Effect, Exit, type Scope } from "effect"
import { type AppendExit, JournalError, JournalUnavailable } from "../journal/Journal.ts"
import { type Counters, observeCommit } from "./Counters.ts"

/** Waits for a commit, about `timeout` milliseconds at most from its first event; the outcome of one that took longer is unknown. */
export type Await = (commit: Promise<AppendExit>, timeout: number) => Promise<AppendExit>

const overdue: AppendExit = Exit.fail(
  new JournalError({ reason: new JournalUnavailable({ message: "the commit took longer than commitTimeout" }) }),
)

/** How often deadlines are looked at: as much later than due a wait may end. */
const sweepEvery = Duration.millis(100)

interface Group {
  readonly commit: Promise<AppendExit>
  readonly bounded: Promise<AppendExit>
  readonly deadline: number
  readonly giveUp: () => void
}

export const make = Effect.fnUntraced(function* (
  commits: Counters["commits"],
): Effect.fn.Return<Await, never, Scope.Scope> {
  const clock = yield* Clock.Clock
  const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  /** The newest group of each timeout: the webhooks of a config have few different ones. */
  const newest = new Map<number, Group>()
  const waiting = new Set<Group>()

  const sweep = Effect.sync(() => {
    const time = now()
    for (const group of waiting) if (group.deadline <= time) group.giveUp()
  })
  yield* Effect.forkScoped(Effect.forever(Effect.delay(sweep, sweepEvery)))

  const bound = (commit: Promise<AppendExit>, timeout: number): Group => {
    const start = now()
    const { promise, resolve } = Promise.withResolvers<AppendExit>()
    const end = (exit: AppendExit): void => {
      if (!waiting.delete(group)) return
      observeCommit(commits, (now() - start) / 1_000)
      resolve(exit)
    }
    const group: Group = { commit, bounded: promise, deadline: start + timeout, giveUp: () => end(overdue) }
    waiting.add(group)
    // The journal's promise never rejects.
    commit.then(end)
    return group
  }

  return (commit, timeout) => {
    let group = newest.get(timeout)
    if (group?.commit !== commit) {
      group = bound(commit, timeout)
      newest.set(timeout, group)
    }
    return group.bounded
  }
})
