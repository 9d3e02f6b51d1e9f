/** The lines of an alarm: a damaged disk may cost more events, each in a line, than a person can read. */

/** Lines that are shown; the audit log has every one. */
export const maxLines = 20

const more = "There is more: `relay audit` lists every loss."

/** The lines as they are shown. */
export const shown = (lines: ReadonlyArray<string>): ReadonlyArray<string> =>
  lines.length <= maxLines ? lines : [...lines.filter((line) => line !== more).slice(0, maxLines), more]
