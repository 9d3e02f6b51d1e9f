import type { Line, Mutant } from "../Line.ts"
import * as Fuzz from "./Fuzz.ts"
import * as Requests from "./Requests.ts"
import * as Slow from "./Slow.ts"

export const lines: ReadonlyArray<Line> = [...Requests.lines, ...Slow.lines, ...Fuzz.lines]
export const mutants: ReadonlyArray<Mutant> = []
