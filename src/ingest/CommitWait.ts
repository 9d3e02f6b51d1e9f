/**
 * Waits for a commit, with a timeout. Requests of one commit share the journal's
 * promise and one deadline, and one sweep checks all deadlines: a timer for each
 * request, or a fiber for each commit, would cost more than everything else that
 * is done for a request.
 */
import { Clock, Duration, Effect, Exit, type Scope } from "effect"
import { type AppendExit, unavailable } from "../journal/Journal.ts"
import { type Counters, observeCommit } from "./Counters.ts"

/** Waits at most about `timeout` milliseconds from the commit's first event. After that the outcome is unknown. */
export type CommitWait = (commit: Promise<AppendExit>, timeout: number) => Promise<AppendExit>

const overdue: AppendExit = Exit.fail(unavailable("the commit took longer than commitTimeout"))

/** How often deadlines are checked; a wait may end so much late. */
const sweepEvery = Duration.millis(100)

interface Pending {
  readonly commit: Promise<AppendExit>
  readonly bounded: Promise<AppendExit>
  readonly deadline: number
  readonly expire: () => void
}

export const make = Effect.fnUntraced(function* (
  commits: Counters["commits"],
): Effect.fn.Return<CommitWait, never, Scope.Scope> {
  const clock = yield* Clock.Clock
  const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  /** The newest commit by timeout: the webhooks of a config have few different timeouts. */
  const newest = new Map<number, Pending>()
  const waiting = new Set<Pending>()

  const sweep = Effect.sync(() => {
    const time = now()
    for (const pending of waiting) if (pending.deadline <= time) pending.expire()
  })
  yield* Effect.forkScoped(Effect.forever(Effect.delay(sweep, sweepEvery)))

  const bound = (commit: Promise<AppendExit>, timeout: number): Pending => {
    const start = now()
    const { promise, resolve } = Promise.withResolvers<AppendExit>()
    const end = (exit: AppendExit): void => {
      if (!waiting.delete(pending)) return
      observeCommit(commits, (now() - start) / 1_000)
      resolve(exit)
    }
    const pending: Pending = { commit, bounded: promise, deadline: start + timeout, expire: () => end(overdue) }
    waiting.add(pending)
    // The journal's promise never rejects.
    commit.then(end)
    return pending
  }

  return (commit, timeout) => {
    let pending = newest.get(timeout)
    if (pending?.commit !== commit) {
      pending = bound(commit, timeout)
      newest.set(timeout, pending)
    }
    return pending.bounded
  }
})
