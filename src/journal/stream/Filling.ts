/** How full a journal is, as a mark: an operator gets a notice when its bytes pass one. */
import { fillingMarks, type JournalStatus } from "../JournalStatus.ts"

/** A mark is cleared when the use falls this far below it, in percent: it warns once. */
const hysteresis = 5

/** The highest mark that is passed; `before` is the last one. */
export const fillingOf = (
  usedBytes: number,
  maxBytes: number,
  before: JournalStatus["filling"],
): JournalStatus["filling"] => {
  const percent = (usedBytes / maxBytes) * 100
  return fillingMarks.find((mark) => percent >= mark - (before >= mark ? hysteresis : 0)) ?? 0
}
