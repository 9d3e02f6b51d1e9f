import { describe, expect, it } from "bun:test"
import { LaneNames, nothingStored } from "../../../../src/journal/postgres/tables/LaneNames.ts"
import { seeded } from "../../../lib/seeded.ts"
import { tries } from "../../../lib/tries.ts"

const all = ["a", "b", "c", "d"] as const

interface Lane {
  name: string
  readonly events: Set<number>
}

/** A simple model of a stream. A lane is a list of events, and each name leads to a lane. */
class Model {
  names = LaneNames.of(nothingStored)
  head = 0
  readonly routed = new Map<number, ReadonlyArray<string>>()
  readonly lanes = new Set<Lane>()
  /** The lane that an event goes to, by the name under which it is appended. */
  readonly ways = new Map<string, Lane>()
  /** Names of lanes that were moved to another lane. That lane can't take one of these names. */
  readonly moved = new Set<string>()

  lane(name: string): Lane | undefined {
    return [...this.lanes].find((lane) => lane.name === name)
  }

  #made(name: string): Lane {
    const lane = { name, events: new Set<number>() }
    this.lanes.add(lane)
    this.ways.set(name, lane)
    return lane
  }

  append(names: ReadonlyArray<string>): void {
    for (const lane of this.names.lanesOf(names, this.head + 1)) {
      if (this.names.places.has(lane)) continue
      const place = { sequence: this.head, settled: [], pausedFor: 0 }
      this.names = new LaneNames(new Map(this.names.places).set(lane, place), this.names.aliases, this.names.past)
    }
    this.head += 1
    this.routed.set(this.head, names)
    for (const name of names) (this.ways.get(name) ?? this.lane(name) ?? this.#made(name)).events.add(this.head)
  }

  open(name: string, renamedFrom?: string, isConfigured: (name: string) => boolean = () => true): void {
    this.names = this.names.opened(name, this.head, { renamedFrom, isConfigured }).lanes
    const way = this.moved.has(name) ? undefined : this.ways.get(name)
    const [own, former] = [this.lane(name), this.lane(renamedFrom ?? "")]
    const called = former ?? (own === undefined && way !== undefined && !isConfigured(way.name) ? way : undefined)
    if (called !== undefined && own === undefined) {
      this.ways.set(called.name, called)
      this.moved.delete(called.name)
      called.name = name
      this.ways.set(name, called)
    } else {
      const lane = own ?? this.#made(name)
      this.ways.set(name, lane)
      if (former !== undefined) {
        for (const [other, to] of [...this.ways, [former.name, former] as const]) {
          if (to !== former) continue
          this.ways.set(other, lane)
          this.moved.add(other)
        }
      }
    }
    this.moved.delete(name)
    const lane = this.ways.get(name)
    if (renamedFrom !== undefined && lane !== undefined && !this.ways.has(renamedFrom)) this.ways.set(renamedFrom, lane)
  }

  remove(name: string): void {
    this.names = this.names.removed(name, this.head)
    const lane = this.lane(name)
    if (lane === undefined) return
    this.lanes.delete(lane)
    for (const [other, to] of this.ways) if (to === lane) this.ways.delete(other)
  }

  /** Compares the names of each event's lanes with the lists. */
  check(): void {
    expect([...this.names.places.keys()].sort()).toEqual([...this.lanes].map(({ name }) => name).sort())
    for (const [sequence, names] of this.routed) {
      const told = this.names.lanesOf(names, sequence).filter((lane) => this.lane(lane) !== undefined)
      const held = [...this.lanes].filter(({ events }) => events.has(sequence)).map(({ name }) => name)
      expect({ sequence, lanes: [...told].sort() }).toEqual({ sequence, lanes: held.sort() })
    }
  }
}

describe("the names of a stream's lanes", () => {
  it("give each event's owner, whatever was renamed, moved, dropped and reopened", () => {
    for (let seed = 1; seed <= tries(400); seed++) {
      const random = seeded(seed)
      const draw = <A>(from: ReadonlyArray<A>): A => from[Math.floor(random() * from.length)] as A
      const model = new Model()
      for (let step = 0; step < 40; step++) {
        const kind = random()
        const [name, other] = [draw(all), draw(all)]
        if (kind < 0.5) model.append(random() < 0.8 ? [name] : [...new Set([name, other])])
        else if (kind < 0.65) model.open(name)
        else if (kind < 0.85 && name !== other) model.open(name, other)
        else if (kind < 0.92) model.open(name, undefined, (lane) => lane === name)
        else model.remove(name)
        // Names that were stored and read again are the same.
        model.names = LaneNames.of(JSON.parse(JSON.stringify(model.names.stored)))
        model.check()
      }
    }
  })

  it("forget only names without a kept event", () => {
    const renamed = LaneNames.of(nothingStored)
      .opened("a", 0, { isConfigured: () => true })
      .lanes.removed("a", 10)
    expect(renamed.since(10).laneOf("a", 10)).toBe("")
    expect(renamed.since(11).isPlain).toBe(true)
  })
})
