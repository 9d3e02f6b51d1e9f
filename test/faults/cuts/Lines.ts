/** Conversations between sinks and their parts that end at unforeseen places. */
import type { Line } from "../Line.ts"
import { cuts } from "./Cuts.ts"
import { journalCuts } from "./JournalCuts.ts"
import { mutants } from "./Mutants.ts"
import { wrongAnswers } from "./WrongAnswers.ts"

export const lines: ReadonlyArray<Line> = [cuts, journalCuts, wrongAnswers]
export { mutants }
