import type { Line } from "../Line.ts"
import * as Claims from "./Claims.ts"
import { floodLine } from "./Flood.ts"
import * as Fuzz from "./Fuzz.ts"
import * as Growth from "./Growth.ts"
import * as Requests from "./Requests.ts"
import * as Slow from "./Slow.ts"

export { mutants } from "./Mutants.ts"

export const lines: ReadonlyArray<Line> = [
  ...Requests.lines,
  ...Slow.lines,
  ...Claims.lines,
  ...Fuzz.lines,
  ...Growth.lines,
  floodLine,
]
