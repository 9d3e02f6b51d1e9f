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
export interface Admission extends ReturnType<typeof make> {}

/** `maxSize` is the most bytes of all streams. */
export const make = ({ fleet, silence, isClosed }: Member, trouble: WriteTrouble, maxSize: number) => {
  /** Why nothing more fits; empty while something does. Dead letters have a table of their own, and don't count. */
  let whyFull = ""
  let refused: AppendExit | undefined
  /** Compares the size of all streams with the largest. */
  const compare = (report: FleetReport): string =>
    report.usedBytes() < maxSize ? "" : `${reachedMaxSize} ${backlogThatFills(report.waiting())}`
  return {
    /** Why operators' changes append nothing more; empty while there is room. */
    whyFull: compare,

    /** Decides for deliveries, once for each heartbeat. */
    measure: (report: FleetReport): Effect.Effect<void> =>
      Effect.sync(() => {
        whyFull = compare(report)
        refused = whyFull === "" ? undefined : Exit.fail(full("maxSize", whyFull))
      }),

    /** Why an append is refused; `undefined` while it is not. */
    refusal: (): AppendExit | undefined => {
      if (isClosed()) return closed
      if (refused !== undefined) return refused
      if (!fleet.isAlive) return silent
      const refusal = trouble.refusal()
      return refusal && Exit.fail(refusal)
    },

    /** Decides for `status`: it also says when there is no stream to write, and reports silence before appends are refused. */
    health: (): Pick<JournalStatus, "message"> & { readonly health: "ok" | "full" | "unavailable" } => {
      const unanswered = silence.message
      if (unanswered !== "") return { health: "unavailable", message: unanswered }
      const refusal = trouble.refusal() ?? (fleet.own === undefined ? noStream : undefined)
      if (refusal === undefined) return { health: whyFull === "" ? "ok" : "full", message: whyFull }
      return { health: refusal.reason._tag === "JournalUnavailable" ? "unavailable" : "full", message: refusal.message }
    },
  }
}
