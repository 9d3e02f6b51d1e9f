/** The displayed lines of an alarm. A damaged disk may lose more events, with a line each, than a person can read. */

/** Maximum lines displayed. The audit log has all of them. */
export const maxLines = 20

const more = "There is more: `relay audit` lists every loss."

/** Returns the lines to display. */
export const shown = (lines: ReadonlyArray<string>): ReadonlyArray<string> =>
  lines.length <= maxLines ? lines : [...lines.filter((line) => line !== more).slice(0, maxLines), more]
