/** Attacks: hostile content, hostile receivers, unlucky operations. */
import type { Line } from "../Line.ts"
import { content } from "./ContentLine.ts"
import { operations } from "./OperationsLine.ts"
import { receivers } from "./ReceiversLine.ts"

export const lines: ReadonlyArray<Line> = [content, receivers, operations]
export { mutants } from "./Mutants.ts"
