import type { Mutant } from "../Line.ts"

export const mutants: ReadonlyArray<Mutant> = []
