/**
 * Decides whether deliveries are refused: the relay stops, the journal is full, or PostgreSQL doesn't answer or
 * stores nothing. It decides from memory, before an append.
 */
import { Effect, Exit } from "effect"
import type { JournalStatus } from "../../Archive.ts"
import { backlogThatFills, type Room } from "../../archive/Room.ts"
import type { AppendExit } from "../../Journal.ts"
import { full, unavailable } from "../../JournalError.ts"
import { noStream } from "../append/StreamWriter.ts"
import type { WriteTrouble } from "../connection/WriteTrouble.ts"
import type { FleetReport } from "./FleetReport.ts"
import type { Member } from "./Member.ts"

const closed: AppendExit = Exit.fail(unavailable("The journal is closed: the relay stops."))
const silent: AppendExit = Exit.fail(unavailable("PostgreSQL does not answer. Try again."))

/** Decides whether deliveries are accepted, and why not. */
export interface Admission extends ReturnType<typeof make> {}

/** `room` is the size of all streams together. */
export const make = ({ fleet, silence, isClosed }: Member, trouble: WriteTrouble, room: Room) => {
  /** Why the journal is full; empty while it has space. Dead letters are in a table of their own and don't count. */
  let whyFull = ""
  let refused: AppendExit | undefined
  /** Compares the size of all streams with the maximum. */
  const compare = (report: FleetReport): string =>
    room.whyFull(report.usedBytes(), "The journal", () => backlogThatFills(report.waiting()))
  return {
    /** Returns why operators' changes can't append more; empty while there is space. */
    whyFull: compare,

    /** Decides once per heartbeat whether deliveries are refused because the journal is full. */
    measure: (report: FleetReport): Effect.Effect<void> =>
      Effect.sync(() => {
        whyFull = compare(report)
        refused = whyFull === "" ? undefined : Exit.fail(full("maxSize", whyFull))
      }),

    /** Returns why an append is refused, or `undefined` while it isn't. */
    refusal: (): AppendExit | undefined => {
      if (isClosed()) return closed
      if (refused !== undefined) return refused
      if (!fleet.isAlive) return silent
      const refusal = trouble.refusal()
      return refusal && Exit.fail(refusal)
    },

    /** Decides for `status`. It also reports a missing stream, and reports silence before appends are refused. */
    health: (): Pick<JournalStatus, "message"> & { readonly health: "ok" | "full" | "unavailable" } => {
      const unanswered = silence.message
      if (unanswered !== "") return { health: "unavailable", message: unanswered }
      const refusal = trouble.refusal() ?? (fleet.own === undefined ? noStream : undefined)
      if (refusal === undefined) return { health: whyFull === "" ? "ok" : "full", message: whyFull }
      return { health: refusal.reason._tag === "JournalUnavailable" ? "unavailable" : "full", message: refusal.message }
    },
  }
}
