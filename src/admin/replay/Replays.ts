/** The running and the last ended replays of this relay. */
import { Clock, Context, Effect, Fiber, Layer } from "effect"
import { ActiveConfig } from "../../ActiveConfig.ts"
import { instant } from "../../formats/Texts.ts"
import { Archive } from "../../journal/Archive.ts"
import { NotFound, noSink, Refused, requireSelectable, type Unavailable, unavailable } from "../api/ApiParts.ts"
import { readings } from "../api/EventSelection.ts"
import { Work } from "../status/RelayStatus.ts"
import type { Replay, ReplayRequest } from "./ReplayReport.ts"
import { ReplayRun } from "./ReplayRun.ts"

/** Maximum replays that run at the same time, and maximum replays that are kept after their end. */
const most = { running: 4, ended: 20 } as const

interface Kept {
  readonly run: ReplayRun
  readonly fiber: Fiber.Fiber<void>
}

const notFound = (id: string) =>
  new NotFound({
    message: `there is no replay ${id}: the relay knows the last ${most.ended}, and forgets them when it restarts`,
  })

export class Replays extends Context.Service<
  Replays,
  {
    readonly start: (request: ReplayRequest) => Effect.Effect<Replay, NotFound | Refused | Unavailable>
    /** Newest first. */
    readonly list: Effect.Effect<ReadonlyArray<Replay>>
    readonly show: (id: string) => Effect.Effect<Replay, NotFound>
    /** Cancels a replay. Returns it once it has ended. */
    readonly cancel: (id: string) => Effect.Effect<Replay, NotFound>
  }
>()("relay/admin/Replays") {
  static readonly layer = Layer.effect(
    Replays,
    Effect.gen(function* () {
      const archive = yield* Archive
      const active = yield* ActiveConfig
      const work = yield* Work
      const scope = yield* Effect.scope
      const kept = new Map<string, Kept>()
      let started = 0

      const check = Effect.fnUntraced(function* ({ events, to }: ReplayRequest) {
        yield* requireSelectable(events)
        const running = [...kept.values()].filter(({ run }) => !run.hasEnded)
        if (to !== "routed" && !active.current.config.sinks.some(({ name }) => name === to.sink)) {
          return yield* noSink(to.sink)
        }
        if (to === "routed" && events.outcome === "unrouted") {
          return yield* new Refused({ message: "events with the outcome unrouted went to no sink: name one" })
        }
        if (events.id !== undefined) {
          const named = Effect.forEach(readings(events.id), (reading) => archive.events({ ...reading, limit: 1 }))
          const found = (yield* Effect.mapError(named, unavailable)).flatMap(({ events }) => events)
          const erased = found.map(({ event }) => event.erased)
          if (erased[0] !== undefined && erased.every((one) => one !== undefined)) {
            return yield* new Refused({
              message: `the body of ${events.id} was erased on ${instant(erased[0].at)}: it can't be sent again`,
            })
          }
        }
        if (running.length >= most.running) {
          return yield* new Refused({ message: `${most.running} replays are running: wait for one or cancel it` })
        }
      })

      const forget = () => {
        const ended = [...kept].filter(([, { run }]) => run.hasEnded)
        for (const [id] of ended.slice(0, -most.ended)) kept.delete(id)
      }

      const start = Effect.fnUntraced(function* (request: ReplayRequest) {
        yield* check(request)
        const to = request.to === "routed" ? "the sinks of each event" : request.to.sink
        const what = request.dryRun === true ? `dry run of a replay to ${to}` : `replay to ${to}`
        const id = `${Math.floor((yield* Clock.currentTimeMillis) / 1000).toString(36)}-${++started}`
        let report = (_: number): void => {}
        const making = ReplayRun.make({
          id,
          archive,
          config: () => active.current.config,
          request,
          onProgress: (share) => report(share),
        })
        const run = yield* Effect.mapError(making, unavailable)
        const job = work.track(what, (onProgress) => {
          report = onProgress
          return run.run
        })
        kept.set(id, { run, fiber: yield* Effect.forkIn(job, scope, { startImmediately: true }) })
        forget()
        return run.report
      })

      const find = (id: string) => {
        const found = kept.get(id)
        return found === undefined ? Effect.fail(notFound(id)) : Effect.succeed(found)
      }

      return Replays.of({
        start,
        list: Effect.sync(() => [...kept.values()].map(({ run }) => run.report).reverse()),
        show: (id) => Effect.map(find(id), ({ run }) => run.report),
        cancel: Effect.fnUntraced(function* (id) {
          const { run, fiber } = yield* find(id)
          yield* Fiber.interrupt(fiber)
          return run.report
        }),
      })
    }),
  )
}
