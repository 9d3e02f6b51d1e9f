/** Real faults on the relay as a process, compiled or from source. */
import type { Line } from "../Line.ts"
import { clock } from "./Clock.ts"
import { damage } from "./Damage.ts"
import { descriptors } from "./Descriptors.ts"
import { diskErrors } from "./DiskErrors.ts"
import { diskFull } from "./DiskFull.ts"
import { frozenFile } from "./FrozenFile.ts"
import { kill } from "./Kill.ts"
import { mutants } from "./Mutants.ts"
import { openFile } from "./OpenFile.ts"
import { powerCut } from "./PowerCut.ts"
import { rename } from "./Rename.ts"
import { second } from "./Second.ts"
import { soak } from "./Soak.ts"
import { stop } from "./Stop.ts"

export const lines: ReadonlyArray<Line> = [
  kill,
  powerCut,
  diskErrors,
  diskFull,
  damage,
  openFile,
  frozenFile,
  clock,
  descriptors,
  stop,
  rename,
  second,
  soak,
]
export { mutants }
