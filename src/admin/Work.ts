/** Tracks long-running work of the admin API and its progress. */
import { Context, Effect, Layer } from "effect"

interface Item {
  /** A description, such as `replay to lake`. */
  readonly what: string
  /** From 0 to 1. */
  readonly share: number
}

/** Reports the progress, from 0 to 1. */
export type OnProgress = (share: number) => void

export class Work extends Context.Service<
  Work,
  {
    readonly running: Effect.Effect<ReadonlyArray<Item>>
    /** Runs `job` and lists it until it ends. */
    track<A, E>(what: string, job: (onProgress: OnProgress) => Effect.Effect<A, E>): Effect.Effect<A, E>
  }
>()("relay/admin/Work") {
  static readonly layer: Layer.Layer<Work> = Layer.sync(Work, () => {
    const jobs = new Set<{ readonly what: string; share: number }>()
    return Work.of({
      running: Effect.sync(() => [...jobs].map((job) => ({ ...job }))),
      track: (what, job) =>
        Effect.suspend(() => {
          const one = { what, share: 0 }
          jobs.add(one)
          const onProgress: OnProgress = (share) => {
            one.share = Math.min(1, Math.max(0, share))
          }
          return Effect.ensuring(
            job(onProgress),
            Effect.sync(() => jobs.delete(one)),
          )
        }),
    })
  })
}
