/** Real faults on the relay as a process, compiled or from source. */
import type { Line, Mutant } from "../Line.ts"
import { diskErrors } from "./DiskErrors.ts"
import { kill } from "./Kill.ts"
import { powerCut } from "./PowerCut.ts"

export const lines: ReadonlyArray<Line> = [kill, powerCut, diskErrors]
export const mutants: ReadonlyArray<Mutant> = []
