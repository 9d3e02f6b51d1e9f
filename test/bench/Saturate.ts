/** Load that measures how much each of several servers can take, with new deliveries in each round. */
import { Effect } from "effect"
import { BenchError } from "./BenchError.ts"
import * as Load from "./Load.ts"
import * as Requests from "./Requests.ts"
import * as Rounds from "./Rounds.ts"
import type * as Target from "./Target.ts"

export interface Options extends Target.Setup {
  /**
   * A file that gets the deliveries of a round. It is in memory, so that writing it doesn't compete with the journal's
   * fsyncs.
   */
  readonly requests: string
  readonly rounds: number
  /** Length of a run. An integer, because wrk accepts no fractions. */
  readonly seconds: number
  /** Rounds before them that aren't counted (default: as many as a table has). */
  readonly warmups?: number
  /** Connections that send (default: `Load.connections`). */
  readonly senders?: number
}

export const saturate = Effect.fnUntraced(function* <const Name extends string>(
  options: Options,
  targets: Readonly<Record<Name, Target.Target>>,
  isUndecided?: (subjects: Readonly<Record<Name, Rounds.Subject>>) => boolean,
) {
  // Enough deliveries for any round: a relay that got a delivery twice would look too fast.
  let count = 40_000 * options.seconds
  let fastest = 0
  const prepare = Effect.sync(() => {
    count = Math.max(count, Math.ceil(fastest * options.seconds * 2))
    Requests.writeFile(options.requests, count)
  })
  const drive: Rounds.Drive = Effect.fnUntraced(function* (target, round) {
    const load = yield* Load.closed(target.port, options.requests, options.seconds, options.senders)
    if (target.delivered === undefined) return load
    fastest = Math.max(fastest, load.rate)
    if (round < 1 || load.requests + (options.senders ?? Load.connections) <= count) return load
    return yield* new BenchError({ message: `${target.name} took all ${count} deliveries of a round: make more` })
  })
  return yield* Rounds.interleaved(targets, options.rounds, prepare, drive, options.warmups, isUndecided)
})
