/** Conversations with the parts of sinks that end where nobody foresaw it. */
import type { Line } from "../Line.ts"
import { cuts } from "./Cuts.ts"
import { mutants } from "./Mutants.ts"

export const lines: ReadonlyArray<Line> = [cuts]
export { mutants }
