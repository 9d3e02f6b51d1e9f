/** Statements that are made false on purpose: the line must notice each. */
import type { Mutant } from "../Line.ts"

export const mutants: ReadonlyArray<Mutant> = []
