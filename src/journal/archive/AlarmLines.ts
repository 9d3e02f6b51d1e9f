/** The lines of an alarm, and the journal's status while it lasts. */
import type { EpochMillis } from "../../event/Quantities.ts"
import type { JournalStatus } from "../Archive.ts"
import { eventsOf } from "../stream/DuplicateKey.ts"
import { type WallClock, warningOf } from "../WallClock.ts"

type Alarm = JournalStatus["alarm"]

/** A line, and when its loss was found. */
export type Loss = readonly [line: string, at: EpochMillis]

/** Maximum lines displayed. A damaged disk may lose more events than a person can read. The audit log has all lines. */
export const maxLines = 20

const more = "There is more: `relay audit` lists every loss."

/** Adds losses, oldest first. Returns the alarm, and the losses that it did not have. */
export const withLosses = (before: Alarm, losses: ReadonlyArray<Loss>): Alarm & { readonly added: typeof losses } => {
  const known = new Set(before.lines)
  const added = losses.filter(([line]) => !known.has(line))
  const lines = [...before.lines, ...added.map(([line]) => line)]
  return {
    added,
    lines: lines.length <= maxLines ? lines : [...lines.filter((line) => line !== more).slice(0, maxLines), more],
    since: before.lines.length > 0 ? before.since : (losses[0]?.[1] ?? 0),
  }
}

type Range = readonly [from: number, to: number]

/** The line for events with a damaged copy. `where` names the place of the copy. */
export const damagedLine = ([from, to]: Range, where = ""): string => {
  const [they, were, them] = from === to ? ["it is", "it was", "it"] : ["they are", "they were", "them"]
  return `${eventsOf([from, to])}${where} can't be read as ${were} written: ${they} not delivered; the sender may send ${them} again.`
}

/** The line for events that a journal has lost. */
export const lostLine = ([from, to]: Range, journal: string, why: string): string => {
  const [are, they, them] = from === to ? ["is", "It is", "it"] : ["are", "They are", "them"]
  return `${eventsOf([from, to])} of the journal ${journal} ${are} lost: ${why}. ${they} not delivered; the sender may send ${them} again.`
}

/** The condition of a journal whose alarm may be raised. `problems` are the texts of other problems; some may be empty. */
export const conditionOf = (
  health: JournalStatus["health"],
  problems: ReadonlyArray<string>,
  { lines, since }: Alarm,
  wallClock: WallClock,
): Pick<JournalStatus, "health" | "message" | "alarm"> => ({
  health: health === "ok" && lines.length > 0 ? "red" : health,
  message: [...problems, ...lines, warningOf(wallClock)].filter((text) => text !== "").join("\n"),
  alarm: { lines, since },
})
