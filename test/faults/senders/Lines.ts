import type { Line, Mutant } from "../Line.ts"

export const lines: ReadonlyArray<Line> = []
export const mutants: ReadonlyArray<Mutant> = []
