import type { Line, Mutant } from "../Line.ts"
import * as Requests from "./Requests.ts"
import * as Slow from "./Slow.ts"

export const lines: ReadonlyArray<Line> = [...Requests.lines, ...Slow.lines]
export const mutants: ReadonlyArray<Mutant> = []
