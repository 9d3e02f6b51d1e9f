import type { Line, Mutant } from "../Line.ts"
import * as Requests from "./Requests.ts"

export const lines: ReadonlyArray<Line> = [...Requests.lines]
export const mutants: ReadonlyArray<Mutant> = []
