/**
 * The config of a seed as it changes: its sinks, by place, and the routes to them. Routes name places, so that a sink
 * may change its name.
 */
import { Duration } from "effect"
import type { Route } from "../../../src/routing/Router.ts"
import { Draw } from "./Draw.ts"
import type { Placed } from "./Life.ts"
import type { Oracle } from "./Oracle.ts"
import { drawSink, type Plan, type Reload, type RoutePlan, sinkName } from "./Plan.ts"
import { SimulatedSink } from "./Sinks.ts"

export class SinkPlaces {
  readonly #plan: Plan
  readonly #oracle: Oracle
  readonly #draw: Draw
  /** `undefined`: removed. */
  #places: ReadonlyArray<Placed | undefined>
  /** Removed sinks, as they were. */
  #removed: ReadonlyArray<{ readonly place: number; readonly sink: SimulatedSink }> = []
  #sinksEver = 0

  constructor(plan: Plan, oracle: Oracle, draw: Draw) {
    this.#plan = plan
    this.#oracle = oracle
    this.#draw = draw
    this.#places = plan.sinks.map(() => ({ sink: this.#newSink(), renamedFrom: undefined, tuned: 0 }))
  }

  /** Returns a function that undoes the changes from here on. */
  snapshot(): () => void {
    const [places, removed] = [this.#places, this.#removed]
    return () => {
      this.#places = places
      this.#removed = removed
    }
  }

  #newSink(like?: SimulatedSink): SimulatedSink {
    const { seed, faultsUntil, burst, sinks } = this.#plan
    const index = this.#sinksEver
    this.#sinksEver += 1
    const plan = like?.plan ?? sinks[index] ?? drawSink(seed, index, faultsUntil, burst)
    const sink = new SimulatedSink(sinkName(index), plan, faultsUntil, this.#oracle, new Draw(seed, `answers ${index}`))
    const { order, alert, delivery, backlog } = plan.config
    this.#oracle.rules.set(sink.name, {
      order: order === "key" || alert !== undefined,
      bound: undefined,
      maxAttempts: delivery.retry.maxAttempts ?? Number.POSITIVE_INFINITY,
      maxAge: Duration.toMillis(delivery.retry.maxAge),
      givesUp: backlog?.whenFull === "deadLetter",
      unrenderable: (event) => sink.unbearable(event, "unrenderable"),
    })
    return sink
  }

  /** The sinks in the config. */
  placed(): ReadonlyArray<Placed> {
    return this.#places.filter((place) => place !== undefined)
  }

  routes(): ReadonlyArray<Route> {
    const names = (to: ReadonlyArray<number>) => to.flatMap((place) => this.#places[place]?.sink.name ?? [])
    const route = (
      { match, except = [], where = {} }: Pick<RoutePlan, "match" | "except" | "where">,
      name: string,
      to: ReadonlyArray<number>,
    ) => ({
      name,
      match,
      except,
      where,
      to: names(to),
    })
    const { routes, own } = this.#plan
    return [
      ...routes.map(({ plan, to }, index) => route(plan, `route ${index}`, to)),
      ...(own === undefined ? [] : [route({ match: ["relay.*"] }, "own", [own])]),
    ]
  }

  #put(at: number, placed: Placed | undefined): void {
    this.#places = this.#places.map((before, place) => (place === at ? placed : before))
  }

  /** The next config. */
  change(change: Reload["change"]): void {
    const place = this.#draw.int(0, this.#places.length - 1)
    const placed = this.#places[place]
    switch (change) {
      case "add":
        this.#places = [...this.#places, { sink: this.#newSink(), renamedFrom: undefined, tuned: 0 }]
        break
      case "remove":
        if (placed === undefined || this.#places.filter((place) => place !== undefined).length < 2) return
        this.#put(place, undefined)
        this.#removed = [...this.#removed, { place, sink: placed.sink }]
        break
      case "rename": {
        if (placed === undefined) return
        const sink = this.#newSink(placed.sink)
        // After two renames, the first may have been cut short. Then the config's former name belongs to no known lane.
        sink.paused = placed.sink.paused && placed.renamedFrom === undefined
        this.#put(place, { sink, renamedFrom: placed.sink.name, tuned: 0 })
        this.#oracle.moves.renamed(placed.sink.name, sink.name)
        break
      }
      case "return": {
        const back = this.#removed.at(-1)
        if (back === undefined) return
        this.#removed = this.#removed.slice(0, -1)
        // A pause goes with its lane.
        if (this.#oracle.moves.isGone(back.sink.name)) back.sink.paused = false
        this.#put(back.place, { sink: back.sink, renamedFrom: undefined, tuned: 0 })
        break
      }
      case "tune":
        if (placed === undefined) return
        this.#put(place, { ...placed, tuned: placed.tuned + 1 })
        break
      case "nothing":
        return
    }
    this.#oracle.note(
      `the config changes: ${change}; sinks are now ${this.#places.map((place) => place?.sink.name ?? "-").join(", ")}`,
    )
  }
}
