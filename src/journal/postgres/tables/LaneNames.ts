/**
 * The lanes of a stream, and the names under which events are routed to them.
 *
 * Events keep the names that they were appended with. A rename changes the lane's name and leaves the events in
 * place: the former name becomes an alias of the lane. So an append that still carries the former name belongs
 * to the lane, whichever relay sends it, and the events keep their order.
 *
 * **Guarantee.** Each name and sequence belongs to exactly one lane or to none, and no later change alters this
 * for an event that is not settled.
 */
import type { Cursor } from "../../Settlement.ts"

/** A lane's cursor in a stream, as the progress stores it. */
export interface Place extends Cursor {
  /** Total milliseconds of the lane's pauses. */
  readonly pausedFor: number
}

/** Events above `after` that are routed to a name belong to the lane `to`. */
export interface Alias {
  readonly to: string
  readonly after: number
  /** The name belonged to another lane, whose events were moved to this one: this lane never had the name. */
  readonly isMoved?: true
}

/**
 * An alias that ended. It is valid up to `until`. If `to` is empty, the lane was removed and its events belong
 * to no lane. `was` is then the lane's last name.
 */
export interface PastAlias extends Alias {
  readonly name: string
  readonly until: number
  readonly was?: string
}

/** SQL for the places of all lanes in a row of `progress`. */
export const allPlaces = "lanes || among(lanes, changed)"

/** One row of the table `progress`. */
export interface StoredLanes {
  readonly lanes: Readonly<Record<string, Place>>
  readonly names: Readonly<Record<string, Alias>>
  readonly past: ReadonlyArray<PastAlias>
}

/** A stream without lanes. */
export const nothingStored: StoredLanes = { lanes: {}, names: {}, past: [] }

/** The options for opening a lane: see `OpenOptions` in `Journal.ts`. */
export interface Opening {
  readonly renamedFrom?: string | undefined
  /** Whether the relay's config has a sink of this name. */
  readonly isConfigured: (name: string) => boolean
}

/** The result of opening a lane. */
export interface Opened {
  readonly lanes: LaneNames
  /** The lane that was renamed to the opened lane. */
  readonly renamed?: string
  /** The lane whose events must be moved to the opened lane. */
  readonly moving?: string
}

/** The lanes of a stream at one point of its log. It is immutable: a change returns another one. */
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

  /** Reports whether each name belongs to the lane of that name. */
  get isPlain(): boolean {
    return this.aliases.size + this.past.length === 0
  }

  /** Reports whether a lane that is being moved isn't empty yet. */
  get isMoving(): boolean {
    return [...this.aliases.keys()].some((name) => this.places.has(name))
  }

  /** Returns the lane of an event that is routed to `name`. It is empty if that lane was removed. */
  laneOf(name: string, sequence: number): string {
    const past = this.#past(name, sequence)
    if (past !== undefined) return past.to
    const alias = this.aliases.get(name)
    return alias !== undefined && sequence > alias.after ? alias.to : name
  }

  /** Returns the name of the lane of an event that is routed to `name`, also of a lane that was removed. */
  nameOf(name: string, sequence: number): string {
    return this.laneOf(name, sequence) || (this.#past(name, sequence)?.was ?? name)
  }

  /** Returns the lanes of an event, each once. */
  lanesOf(names: ReadonlyArray<string>, sequence: number): ReadonlyArray<string> {
    if (this.isPlain) return names
    const lanes = names.map((name) => this.laneOf(name, sequence)).filter((lane) => lane !== "")
    return lanes.every((lane, index) => lane === names[index]) && lanes.length === names.length
      ? names
      : [...new Set(lanes)]
  }

  /** Returns the move of a lane that isn't empty yet. The lane keeps its events up to the alias's `after`. */
  movingFrom(name: string): Alias | undefined {
    return this.places.has(name) ? this.aliases.get(name) : undefined
  }

  /** Returns the lanes that are moved to the lane `to` and aren't empty yet. */
  movingTo(to: string): ReadonlyArray<string> {
    return [...this.aliases].filter(([name, alias]) => alias.to === to && this.places.has(name)).map(([name]) => name)
  }

  /**
   * Opens a lane. If a lane has the former name, it becomes this one. If both names are lanes, the former lane
   * must be moved (`movingFrom`). If a renamed lane is claimed by no sink of the config, it gets its former
   * name back. It never gets the name of a lane that was moved to it, because that name belongs to another
   * sink.
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
    // Relays that still have the old config continue to append under the former name.
    const lanes = former === undefined ? open : open.alsoNamed(former, name, head)
    return { lanes, ...(isBack && { renamed: alias.to }) }
  }

  /** Adds lanes at `head`. A name that a lane has or had is left unchanged. */
  created(names: ReadonlyArray<string>, head: number): LaneNames {
    const places = new Map(this.places)
    for (const name of names) {
      if (!places.has(name) && !this.aliases.has(name)) places.set(name, { sequence: head, settled: [], pausedFor: 0 })
    }
    return places.size === this.places.size ? this : new LaneNames(places, this.aliases, this.past)
  }

  /** Gives an existing lane another name, for events appended from now on. */
  alsoNamed(name: string, lane: string, head: number): LaneNames {
    if (this.places.has(name) || this.aliases.has(name)) return this
    return new LaneNames(this.places, new Map(this.aliases).set(name, { to: lane, after: head }), this.past)
  }

  /** Renames the lane `from` to `to`, with all its events. There must not be a lane `to`. */
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

  /**
   * Events appended to `from` after `head` belong to the lane `to`. Earlier ones stay in `from` until they are
   * moved.
   */
  redirected(from: string, to: string, head: number): LaneNames {
    if (this.aliases.get(from)?.to === to) return this
    const others = [...this.aliases].filter(([, alias]) => alias.to === from)
    const moved: Alias = { to, after: head, isMoved: true }
    const aliases = new Map(this.aliases).set(from, moved)
    for (const [name] of others) aliases.set(name, moved)
    const ended = others.map(([name, alias]) => ({ name, ...alias, until: head }))
    return new LaneNames(this.places, aliases, [...this.past, ...ended])
  }

  /** Removes a lane. Its events up to `head` belong to no lane. */
  removed(name: string, head: number): LaneNames {
    if (!this.places.has(name)) return this
    const places = new Map(this.places)
    places.delete(name)
    const moved = this.movingFrom(name)
    const until = moved?.after ?? head
    const nobody = (one: string, after: number): PastAlias => ({ name: one, to: "", after, until, was: name })
    const others = [...this.aliases].filter(([, { to }]) => to === name)
    const past = this.past.map((one) => (one.to === name ? { ...one, to: "", was: name } : one))
    const aliases = new Map([...this.aliases].filter(([, { to }]) => to !== name))
    return new LaneNames(places, aliases, [
      ...past,
      ...others.map(([one, { after }]) => nobody(one, after)),
      nobody(name, 0),
    ])
  }

  /** Forgets aliases that only concern events below `first`. */
  since(first: number): LaneNames {
    return new LaneNames(
      this.places,
      this.aliases,
      this.past.filter(({ until }) => until >= first),
    )
  }

  #past(name: string, sequence: number): PastAlias | undefined {
    return this.past.find((past) => past.name === name && past.after < sequence && sequence <= past.until)
  }

  /** Ends an alias at `head`, unless it belongs to the lane `keep`. */
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
