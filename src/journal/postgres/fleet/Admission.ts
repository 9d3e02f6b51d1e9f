/**
 * Why deliveries are refused: the relay stops, the journal is full, or PostgreSQL
 * does not answer or stores nothing. It is decided from memory, before an append.
 */
import { Effect, Exit } from "effect"
import type { AppendExit } from "../../Journal.ts"
import { full, unavailable } from "../../JournalError.ts"
import type { JournalStatus } from "../../JournalStatus.ts"
import { backlogThatFills } from "../../stream/WhatFills.ts"
import { noStream } from "../append/StreamWriter.ts"
import type { WriteTrouble } from "../connection/WriteTrouble.ts"
import type { FleetReport } from "./FleetReport.ts"
import type { Member } from "./Member.ts"

const closed: AppendExit = Exit.fail(unavailable("The journal is closed: the relay stops."))
const silent: AppendExit = Exit.fail(unavailable("PostgreSQL does not answer. Try again."))
const reachedMaxSize = `The journal has reached its largest size ("journal.maxSize"). Raise it, or make the sinks take what waits.`

/** Decides whether deliveries are accepted, and says why not. */
export class Admission {
  readonly #member: Member
  readonly #trouble: WriteTrouble
  /** Why nothing more fits; empty while something does. Dead letters have a table of their own, and don't count. */
  #whyFull = ""
  #full: AppendExit | undefined

  constructor(member: Member, trouble: WriteTrouble) {
    this.#member = member
    this.#trouble = trouble
  }

  /** Compares the size of all streams with `maxSize` bytes; once for each heartbeat. */
  measure(report: FleetReport, maxSize: number): Effect.Effect<void> {
    return Effect.sync(() => {
      this.#whyFull = report.usedBytes < maxSize ? "" : `${reachedMaxSize} ${backlogThatFills(report.waiting)}`
      this.#full = this.#whyFull === "" ? undefined : Exit.fail(full("maxSize", this.#whyFull))
    })
  }

  /** Why an append is refused; `undefined` while it is not. */
  readonly refusal = (): AppendExit | undefined => {
    const { fleet, isClosed } = this.#member
    if (isClosed()) return closed
    if (this.#full !== undefined) return this.#full
    if (!fleet.isAlive) return silent
    const refusal = this.#trouble.refusal()
    return refusal && Exit.fail(refusal)
  }

  /** The same for `status`: it also says when there is no stream to write, and reports silence before appends are refused. */
  get health(): Pick<JournalStatus, "message"> & { readonly health: "ok" | "full" | "unavailable" } {
    const { fleet, silence } = this.#member
    const unanswered = silence.message
    if (unanswered !== "") return { health: "unavailable", message: unanswered }
    const refusal = this.#trouble.refusal() ?? (fleet.own === undefined ? noStream : undefined)
    if (refusal === undefined) return { health: this.#whyFull === "" ? "ok" : "full", message: this.#whyFull }
    return { health: refusal.reason._tag === "JournalUnavailable" ? "unavailable" : "full", message: refusal.message }
  }
}
