/**
 * Why deliveries are refused: the relay stops, the journal is full, or PostgreSQL
 * does not answer or stores nothing. It is decided from memory, before an append.
 */
import { Effect, Exit } from "effect"
import { backlogThatFills, type Room } from "../../archive/Room.ts"
import type { AppendExit } from "../../Journal.ts"
import { full, unavailable } from "../../JournalError.ts"
import type { JournalStatus } from "../../JournalStatus.ts"
import { noStream } from "../append/StreamWriter.ts"
import type { WriteTrouble } from "../connection/WriteTrouble.ts"
import type { FleetReport } from "./FleetReport.ts"
import type { Member } from "./Member.ts"

const closed: AppendExit = Exit.fail(unavailable("The journal is closed: the relay stops."))
const silent: AppendExit = Exit.fail(unavailable("PostgreSQL does not answer. Try again."))

/** Decides whether deliveries are accepted, and says why not. */
export interface Admission extends ReturnType<typeof make> {}

/** `room` is the size of all streams together. */
export const make = ({ fleet, silence, isClosed }: Member, trouble: WriteTrouble, room: Room) => {
  /** Why nothing more fits; empty while something does. Dead letters have a table of their own, and don't count. */
  let whyFull = ""
  let refused: AppendExit | undefined
  /** Compares the size of all streams with the largest. */
  const compare = (report: FleetReport): string =>
    room.whyFull(report.usedBytes(), "The journal", () => backlogThatFills(report.waiting()))
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
