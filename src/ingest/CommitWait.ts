/**
 * Waits for a commit, with a timeout. Requests of one commit share the journal's
 * promise, and so one fiber waits for all of them.
 */
import { Clock, Effect, Exit } from "effect"
import { type AppendExit, unavailable } from "../journal/Journal.ts"
import { type Counters, observeCommit } from "./Counters.ts"

/** Waits at most `timeout` milliseconds from the commit's first event. After that the outcome is unknown. */
export type CommitWait = (commit: Promise<AppendExit>, timeout: number) => Promise<AppendExit>

const overdue: AppendExit = Exit.fail(unavailable("the commit took longer than commitTimeout"))

/** Makes a wait that notes how long each commit took. */
export const make = Effect.fnUntraced(function* (commits: Counters["commits"]): Effect.fn.Return<CommitWait> {
  const clock = yield* Clock.Clock
  const run = Effect.runPromiseWith(yield* Effect.context<never>())
  /** The newest commit by timeout: the webhooks of a config have few different timeouts. */
  const newest = new Map<number, { readonly commit: Promise<AppendExit>; readonly bounded: Promise<AppendExit> }>()
  const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e9

  const bound = Effect.fnUntraced(function* (commit: Promise<AppendExit>, timeout: number) {
    const start = now()
    // The journal's promise never rejects.
    const exit = yield* Effect.timeoutOrElse(
      Effect.promise(() => commit),
      { duration: timeout, orElse: () => Effect.succeed(overdue) },
    )
    observeCommit(commits, now() - start)
    return exit
  })

  return (commit, timeout) => {
    let known = newest.get(timeout)
    if (known?.commit !== commit) {
      known = { commit, bounded: run(bound(commit, timeout)) }
      newest.set(timeout, known)
    }
    return known.bounded
  }
})
