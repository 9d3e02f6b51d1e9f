/** Long work under way that a person asked for, and how far it is. */
import { Context, Effect, Layer } from "effect"

export interface Item {
  /** `replay to lake`. */
  readonly what: string
  /** From 0 to 1. */
  readonly share: number
}

/** Says how far it is. */
export type Tell = (share: number) => void

export class Work extends Context.Service<
  Work,
  {
    readonly underWay: Effect.Effect<ReadonlyArray<Item>>
    /** Does `job`, which is listed as long as it lasts. */
    track<A, E>(what: string, job: (tell: Tell) => Effect.Effect<A, E>): Effect.Effect<A, E>
  }
>()("relay/admin/Work") {
  static readonly layer: Layer.Layer<Work> = Layer.sync(Work, () => {
    const jobs = new Set<{ readonly what: string; share: number }>()
    return Work.of({
      underWay: Effect.sync(() => [...jobs].map((job) => ({ ...job }))),
      track: (what, job) =>
        Effect.suspend(() => {
          const one = { what, share: 0 }
          jobs.add(one)
          const tell: Tell = (share) => {
            one.share = Math.min(1, Math.max(0, share))
          }
          return Effect.ensuring(
            job(tell),
            Effect.sync(() => jobs.delete(one)),
          )
        }),
    })
  })
}
