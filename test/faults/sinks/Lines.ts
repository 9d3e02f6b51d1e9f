/** Sinks that misbehave, and sinks that are away. */
import type { Line, Mutant } from "../Line.ts"
import { brokerAway, receiverAway } from "./Away.ts"
import { trials } from "./Trials.ts"

export const lines: ReadonlyArray<Line> = [...trials, receiverAway, brokerAway]
export const mutants: ReadonlyArray<Mutant> = []
