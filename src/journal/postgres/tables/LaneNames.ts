/**
 * The lanes of a stream and the names under which events are routed to them.
 *
 * Events keep the names that they were appended with. A rename changes the name
 * of the lane and leaves the events where they are: the former name becomes
 * another name of the lane. So an append that still carries it belongs to the
 * lane, whichever relay sends it, and the order of the events stays.
 *
 * **Guarantee.** For each name and sequence there is exactly one answer to whose
 * event it is, and no later change alters it for an event that is not settled.
 */
import type { Cursor } from "../../Settlement.ts"

/** A lane's place in a stream, as the progress keeps it. */
export interface Place extends Cursor {
  /** Milliseconds that the lane was paused in all. */
  readonly pausedFor: number
}

/** Events above `after` that are routed to a name belong to the lane `to`. */
export interface Alias {
  readonly to: string
  readonly after: number
  /** The name was that of another lane, whose events were moved to this one: the lane never had the name. */
  readonly isMoved?: true
}

/** An alias that ended: it holds up to `until`. With an empty `to` the events belong to nobody: their lane was removed. */
export interface PastAlias extends Alias {
  readonly name: string
  readonly until: number
}

/** One row of the table `progress`. */
export interface StoredLanes {
  readonly lanes: Readonly<Record<string, Place>>
  readonly names: Readonly<Record<string, Alias>>
  readonly past: ReadonlyArray<PastAlias>
}

/** A stream without lanes. */
export const nothingStored: StoredLanes = { lanes: {}, names: {}, past: [] }

/** How a lane is opened: see `OpenOptions` in `StreamLog.ts`. */
export interface Opening {
  readonly renamedFrom?: string | undefined
  /** Whether the relay's config has a sink of this name. */
  readonly isConfigured: (name: string) => boolean
}

/** The changes that opening a lane makes. */
export interface Opened {
  readonly lanes: LaneNames
  /** The lane that has its name now. */
  readonly renamed?: string
  /** The lane that is to be emptied into it. */
  readonly moving?: string
}

/** The lanes of a stream at one point of its log; a change gives another one. */
export class LaneNames {
  readonly places: ReadonlyMap<string, Place>
  readonly aliases: ReadonlyMap<string, Alias>
  readonly past: ReadonlyArray<PastAlias>

  constructor(
    places: ReadonlyMap<string, Place>,
    aliases: ReadonlyMap<string, Alias>,
    past: ReadonlyArray<PastAlias> = [],
  ) {
    this.places = places
    this.aliases = aliases
    this.past = past
  }

  static of({ lanes, names, past }: StoredLanes): LaneNames {
    return new LaneNames(new Map(Object.entries(lanes)), new Map(Object.entries(names)), past)
  }

  get stored(): StoredLanes {
    return { lanes: Object.fromEntries(this.places), names: Object.fromEntries(this.aliases), past: this.past }
  }

  /** Every name is that of its lane. */
  get isPlain(): boolean {
    return this.aliases.size + this.past.length === 0
  }

  /** A move has not emptied all lanes. */
  get isMoving(): boolean {
    return [...this.aliases.keys()].some((name) => this.places.has(name))
  }

  /** The lane that an event belongs to which is routed to `name`; empty where that lane was removed. */
  laneOf(name: string, sequence: number): string {
    for (const { name: past, to, after, until } of this.past) {
      if (past === name && after < sequence && sequence <= until) return to
    }
    const alias = this.aliases.get(name)
    return alias !== undefined && sequence > alias.after ? alias.to : name
  }

  /** The lanes that an event belongs to, each once. */
  lanesOf(names: ReadonlyArray<string>, sequence: number): ReadonlyArray<string> {
    if (this.isPlain) return names
    const lanes = names.map((name) => this.laneOf(name, sequence)).filter((lane) => lane !== "")
    return lanes.every((lane, index) => lane === names[index]) && lanes.length === names.length
      ? names
      : [...new Set(lanes)]
  }

  /** The lane that a move has not emptied yet, and up to where its events are its own. */
  movingFrom(name: string): Alias | undefined {
    return this.places.has(name) ? this.aliases.get(name) : undefined
  }

  /**
   * Opens a lane. A lane under its former name becomes this one; where both are
   * lanes the former one is to be moved (`movingFrom`). A lane that was renamed
   * and that no sink of the config claims gets its former name back, but never the
   * name of a lane that was moved to it: that is another sink's.
   */
  opened(name: string, head: number, { renamedFrom, isConfigured }: Opening): Opened {
    const former = renamedFrom === name ? undefined : renamedFrom
    if (former !== undefined && this.places.has(former)) {
      const isLane = this.places.has(name)
      const free = this.#ended(name, head, isLane ? undefined : former).#ended(former, head, name)
      return isLane
        ? { lanes: free.redirected(former, name, head), moving: former }
        : { lanes: free.renamed(former, name), renamed: former }
    }
    const alias = this.aliases.get(name)
    const isFormer = alias !== undefined && alias.isMoved !== true && this.places.has(alias.to)
    const isBack = isFormer && !this.places.has(name) && !isConfigured(alias.to)
    const open = isBack ? this.renamed(alias.to, name) : this.#ended(name, head).#added(name, head)
    // Relays that still have the old config go on to append under the former name.
    const lanes = former === undefined ? open : open.alsoNamed(former, name, head)
    return { lanes, ...(isBack && { renamed: alias.to }) }
  }

  /** Adds lanes at `head`. A name that a lane has, or had, stays as it is. */
  created(names: ReadonlyArray<string>, head: number): LaneNames {
    const places = new Map(this.places)
    for (const name of names) {
      if (!places.has(name) && !this.aliases.has(name)) places.set(name, { sequence: head, settled: [], pausedFor: 0 })
    }
    return places.size === this.places.size ? this : new LaneNames(places, this.aliases, this.past)
  }

  /** Gives a lane that is there another name, for what is appended from now on. */
  alsoNamed(name: string, lane: string, head: number): LaneNames {
    if (this.places.has(name) || this.aliases.has(name)) return this
    return new LaneNames(this.places, new Map(this.aliases).set(name, { to: lane, after: head }), this.past)
  }

  /** The lane `from` is called `to` from now on, with all that it holds. There is no lane `to`. */
  renamed(from: string, to: string): LaneNames {
    const places = new Map([...this.places].map(([name, place]) => [name === from ? to : name, place]))
    const aliases = new Map(
      [...this.aliases]
        .filter(([name]) => name !== to)
        .map(([name, alias]) => [name, alias.to === from ? { ...alias, to } : alias]),
    )
    const past = this.past.map((one) => (one.to === from ? { ...one, to } : one))
    return new LaneNames(places, aliases.set(from, { to, after: 0 }), past)
  }

  /** Events appended to `from` after `head` belong to the lane `to`; earlier ones stay until they are moved. */
  redirected(from: string, to: string, head: number): LaneNames {
    if (this.aliases.get(from)?.to === to) return this
    const others = [...this.aliases].filter(([, alias]) => alias.to === from)
    const moved: Alias = { to, after: head, isMoved: true }
    const aliases = new Map(this.aliases).set(from, moved)
    for (const [name] of others) aliases.set(name, moved)
    const ended = others.map(([name, alias]) => ({ name, ...alias, until: head }))
    return new LaneNames(this.places, aliases, [...this.past, ...ended])
  }

  /** Removes a lane: what it holds, up to `head`, belongs to nobody. */
  removed(name: string, head: number): LaneNames {
    if (!this.places.has(name)) return this
    const places = new Map(this.places)
    places.delete(name)
    const moved = this.movingFrom(name)
    const until = moved?.after ?? head
    const nobody = (one: string, after: number): PastAlias => ({ name: one, to: "", after, until })
    const others = [...this.aliases].filter(([, { to }]) => to === name)
    const past = this.past.map((one) => (one.to === name ? { ...one, to: "" } : one))
    const aliases = new Map([...this.aliases].filter(([, { to }]) => to !== name))
    return new LaneNames(places, aliases, [
      ...past,
      ...others.map(([one, { after }]) => nobody(one, after)),
      nobody(name, 0),
    ])
  }

  /** Forgets what concerns only events below `first`. */
  since(first: number): LaneNames {
    return new LaneNames(
      this.places,
      this.aliases,
      this.past.filter(({ until }) => until >= first),
    )
  }

  /** Ends an alias at `head`, unless it is one of the lane `keep`. */
  #ended(name: string, head: number, keep?: string): LaneNames {
    const alias = this.aliases.get(name)
    if (alias === undefined || alias.to === keep) return this
    const aliases = new Map(this.aliases)
    aliases.delete(name)
    return new LaneNames(this.places, aliases, [...this.past, { name, ...alias, until: head }])
  }

  #added(name: string, head: number): LaneNames {
    if (this.places.has(name)) return this
    const place: Place = { sequence: head, settled: [], pausedFor: 0 }
    return new LaneNames(new Map(this.places).set(name, place), this.aliases, this.past)
  }
}
