/**
 * Finds out whether the sink or an event is at fault, when an attempt fails for a
 * reason that blames the whole sink (unavailable, throttled, misconfigured).
 *
 * A single failure proves nothing. If an event fails again although others have
 * succeeded since, the event is at fault: it is charged an attempt, and the sink is
 * not blamed. From then on, it is charged for each failure, unless others fail as
 * well and none succeeds, because no event is charged while the sink is unavailable.
 *
 * When a batch fails as a whole, any of its events may be at fault. So they are
 * isolated and sent one by one until each has shown whether it is at fault.
 */
import type { Retry } from "../../journal/Journal.ts"
import { type DeliveryRejected, SinkMisconfigured } from "../../sinks/Sink.ts"
import type { Limits } from "./Queue.ts"
import { blamesSink, type Suspicion } from "./Verdict.ts"

export class Suspects {
  #passes = 0
  /** Events that are not at fault have failed, and no attempt has succeeded since. */
  #mayBeAway = false
  /** By event: the number of successful attempts before its last failure. */
  readonly #failedAt = new Map<number, number>()
  readonly #charged = new Set<number>()
  readonly #isolated = new Set<number>()

  /** Called when an attempt delivered at least one event. */
  passed(): void {
    this.#passes += 1
    this.#mayBeAway = false
  }

  /** Called when the event failed for a reason that blames the sink. */
  failed(sequence: number): void {
    this.#failedAt.set(sequence, this.#passes)
    if (!this.#charged.has(sequence)) this.#mayBeAway = true
  }

  /** Called when the event failed for such a reason and is charged an attempt. */
  charge(sequence: number): void {
    this.#charged.add(sequence)
    this.failed(sequence)
  }

  /**
   * Takes over retries from before a restart or from another lane. If such a reason was charged to an event, the event
   * was at fault.
   */
  recall(retries: ReadonlyArray<Retry>): void {
    for (const { sequence, lastFailure } of retries) if (blamesSink(lastFailure)) this.#charged.add(sequence)
  }

  suspicion(sequence: number): Suspicion {
    const wasCharged = this.#charged.has(sequence)
    if (wasCharged && !this.#mayBeAway) return "atFault"
    if ((this.#failedAt.get(sequence) ?? this.#passes) < this.#passes) return "atFault"
    return wasCharged ? "wasAtFault" : "none"
  }

  wasCharged(sequence: number): boolean {
    return this.#charged.has(sequence)
  }

  isolate(sequence: number): void {
    this.#isolated.add(sequence)
  }

  readonly isIsolated = (sequence: number): boolean => this.#isolated.size > 0 && this.#isolated.has(sequence)

  /** Called when the event was delivered or is a dead letter. */
  ended(sequence: number): void {
    if (this.#failedAt.size + this.#charged.size + this.#isolated.size === 0) return
    this.#failedAt.delete(sequence)
    this.#charged.delete(sequence)
    this.#isolated.delete(sequence)
  }
}

/** The number of different events in a row that the target must refuse alike. */
const inARow = 3
/** Milliseconds without a delivery after which refusals are again attributed to the target. */
const forgetAfter = 60_000
/** The number of probes that don't wait for the backoff: the next event may be delivered. */
const hastyProbes = 8
/** The number of refused events, and of their keys, that are remembered for the choice of probes. */
const maxRemembered = 10_000

/** An event that was refused, with the fields to take it back from the dead letters. */
export interface Refused {
  readonly sequence: number
  readonly key: string
  readonly type: string
  readonly bytes: number
  /** The number of its latest attempts in a row, before the refusal, that ended in a bug. */
  readonly defects: number
  /** The charged attempts before the refusal. */
  readonly tried: number
  readonly firstAttemptAt: number
}

/** The party that a refusal concerns. */
type Ruling =
  /** It becomes a dead letter. */
  | { readonly _tag: "Event" }
  /** The event waits for the target, and these events are taken back from the dead letters. */
  | { readonly _tag: "Target"; readonly failure: SinkMisconfigured; readonly takeBack: ReadonlyArray<Refused> }

const event: Ruling = { _tag: "Event" }
const none: ReadonlyArray<Refused> = []

/**
 * Returns the kind of a refusal. Refusals are of one kind if they have the same
 * code, or messages that differ only in numbers and quoted words.
 */
const kindOf = ({ code, message }: DeliveryRejected): string =>
  code === undefined ? message.replace(/"[^"]*"|'[^']*'|`[^`]*`|[0-9a-f-]*\d[0-9a-f-]*/gi, "#") : String(code)

/** The target probably refuses every event. */
interface Suspension {
  readonly kind: string
  readonly types: Set<string>
  readonly keys: Set<string>
  readonly sequences: Set<number>
  probes: number
}

/**
 * Decides whether a refusal concerns the event or the target, if the response does not say. A target that refuses
 * would refuse every event.
 *
 * If three different events in a row are refused alike, the target refuses. The lane takes back the two that are
 * already dead letters, waits, and probes with one waiting event after another, other types and keys first. A delivery
 * shows that the target accepts events. The refused events are then tried once more. Until a minute has passed without
 * a delivery, an event with the same refusal becomes a dead letter.
 *
 * Pure state: callers pass the monotonic time in milliseconds.
 */
export class TargetRefusals {
  /** The refusals since the last delivery, all of one kind. */
  #row: { readonly kind: string; readonly refused: Array<ReadonlyArray<Refused>> } | undefined
  #suspension: Suspension | undefined
  /** Kinds of refusals that concern the event, because others were delivered beside them. */
  readonly #known = new Set<string>()
  #deliveredAt = Number.NEGATIVE_INFINITY

  /** Reports whether the lane only probes. */
  get isSuspended(): boolean {
    return this.#suspension !== undefined
  }

  /** An attempt has ended. Reports whether the next one is a probe that need not wait. */
  hurries(): boolean {
    if (this.#suspension === undefined) return false
    this.#suspension.probes += 1
    return this.#suspension.probes <= hastyProbes
  }

  /** Predicates for events that are less suitable as probes: a refused type or key, then the refused events themselves. */
  get avoids(): Limits["avoids"] {
    const suspension = this.#suspension
    if (suspension === undefined) return undefined
    const { types, keys, sequences } = suspension
    return [
      ({ entry, key }) => types.has(entry.event.type) || keys.has(key),
      ({ entry }) => sequences.has(entry.sequence),
    ]
  }

  /** An attempt delivered events. True if that ends a suspension. */
  delivered(now: number): boolean {
    this.#deliveredAt = now
    this.#row = undefined
    if (this.#suspension === undefined) return false
    this.#known.add(this.#suspension.kind)
    this.#suspension = undefined
    return true
  }

  /**
   * Rules on a refusal of one message: an event, or all events of a digest.
   * `beside` says whether the same attempt delivered other events.
   */
  refused(message: ReadonlyArray<Refused>, failure: DeliveryRejected, beside: boolean, now: number): Ruling {
    if (failure.ofEvent) return event
    const kind = kindOf(failure)
    if (now - this.#deliveredAt > forgetAfter) this.#known.clear()
    if (beside) this.#known.add(kind)
    if (this.#known.has(kind)) return event
    if (this.#suspension !== undefined) {
      return this.#target(this.#suspension, message, failure, none)
    }
    if (this.#row?.kind !== kind) this.#row = { kind, refused: [] }
    const { refused } = this.#row
    const [first] = message
    if (!refused.some(([known]) => known?.sequence === first?.sequence)) refused.push(message)
    if (refused.length < inARow) return event
    this.#row = undefined
    this.#suspension = { kind, types: new Set(), keys: new Set(), sequences: new Set(), probes: 0 }
    const takeBack = refused.slice(0, -1).flat()
    this.#note(this.#suspension, takeBack)
    return this.#target(this.#suspension, message, failure, takeBack)
  }

  /** Forgets all refusals, because an operator resumed the lane. */
  reset(): void {
    this.#row = undefined
    this.#suspension = undefined
    this.#known.clear()
  }

  #target(
    suspension: Suspension,
    refused: ReadonlyArray<Refused>,
    { message: refusal, ...more }: DeliveryRejected,
    takeBack: ReadonlyArray<Refused>,
  ): Ruling {
    this.#note(suspension, refused)
    const message = `refused ${inARow} different events in a row alike, so it probably refuses every event (${refusal}); correct the sink or its target. The relay keeps trying, one event after another`
    const { answer, code } = more
    return {
      _tag: "Target",
      failure: new SinkMisconfigured({
        message,
        ...(answer !== undefined && { answer }),
        ...(code !== undefined && { code }),
      }),
      takeBack,
    }
  }

  #note({ types, keys, sequences }: Suspension, refused: ReadonlyArray<Refused>): void {
    for (const { type, key, sequence } of refused) {
      types.add(type)
      if (key !== "" && keys.size < maxRemembered) keys.add(key)
      if (sequences.size < maxRemembered) sequences.add(sequence)
    }
  }
}
