/** The contents of a journal as a relay finds them: each event's timeline, the dead letters and the lanes. */
import { Effect } from "effect"
import { timelineOf } from "../../../src/admin/api/EventReport.ts"
import { collect } from "../../../src/journal/EventQuery.ts"
import type { WholeJournal } from "../../../src/journal/JournalType.ts"
import { attemptsOf } from "../../../src/journal/Settlement.ts"
import { secondDay } from "./History.ts"

/**
 * Returns the account in the words of the timeline, independent of sequences. Times are seconds after the start of the
 * second day.
 */
export const accountOf = Effect.fnUntraced(function* (journal: WholeJournal) {
  const { events } = yield* collect({ limit: 100, after: "" }, journal.events)
  const nameOf = new Map(events.map(({ sequence, event, origin }) => [`seq_${sequence}`, `${event.id} (${origin})`]))
  const stories = events.map((found) => {
    const lines = timelineOf(found).map(({ at, sink, what, attempt }) => {
      const time = at === undefined ? "" : `${(at - secondDay) / 1_000} s: `
      const measured = attempt === undefined ? "" : ` in ${attempt.took} ms, ${attempt.code}`
      return `${time}${sink === undefined ? "" : `${sink}: `}${what}${measured}`
    })
    return `${found.event.id}${found.event.altered ? ", altered" : ""}\n${lines.map((line) => `  ${line}\n`).join("")}`
  })
  const letters = yield* journal.deadLetters({ limit: 100 })
  const lanes = yield* journal.lanes
  return {
    events: stories
      .map((story) => story.replaceAll(/seq_\d+/g, (sequence) => nameOf.get(sequence) ?? "one that is not kept"))
      .sort(),
    letters: letters.map(({ lane, attempts, entry }) => `${lane}: ${entry.event.id}, ${attemptsOf(attempts)}`).sort(),
    lanes: lanes
      .map(
        ({ name, backlog, retrying, deadLetters, paused, mute }) =>
          `${name}: ${backlog}, ${retrying} retrying, ${deadLetters} dead${paused ? ", paused" : ""}${mute === undefined ? "" : `, then ${mute.ending}`}`,
      )
      .sort(),
  }
})
