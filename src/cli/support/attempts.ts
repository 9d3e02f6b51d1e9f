/** Failed attempts as rows of a table, each with what the receiver answered. */
import { mask } from "../../event/Mask.ts"
import { instant } from "../../formats/Amounts.ts"
import type { Attempt } from "../../journal/Journal.ts"

/** A line of an answer is a row: a page of HTML stays readable. */
const lines = (answer: string): ReadonlyArray<string> =>
  answer === mask ? ["(--reveal shows the answer)"] : answer.split(/[\r\n]+/).filter((line) => line.trim() !== "")

export const attemptRows = (
  label: string,
  attempts: ReadonlyArray<Attempt>,
): ReadonlyArray<readonly [label: string, text: string]> =>
  attempts.flatMap(({ at, reason, message, answer }) => [
    [label, `${instant(at)}  ${reason}: ${message}`] as const,
    ...lines(answer ?? "").map((line) => ["", `  ${line}`] as const),
  ])
