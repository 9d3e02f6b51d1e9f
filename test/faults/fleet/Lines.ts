/** Several relays on one PostgreSQL, as processes. */
import type { Line } from "../Line.ts"
import { cutCommit, cutMutants } from "./CutCommit.ts"
import { database, network } from "./Databases.ts"
import { asynchronous, failover, promoted, split } from "./Failover.ts"
import { freeze } from "./Freeze.ts"
import { kill } from "./Kill.ts"
import { lateCommit } from "./LateCommit.ts"
import { mutants as fleetMutants } from "./Mutants.ts"
import { refused, refusedMutants } from "./Refused.ts"
import { rename, renameMutants } from "./Rename.ts"
import { same } from "./Same.ts"
import { stop } from "./Stop.ts"

export const lines: ReadonlyArray<Line> = [
  kill,
  stop,
  freeze,
  lateCommit,
  database,
  network,
  same,
  failover,
  asynchronous,
  promoted,
  split,
  cutCommit,
  rename,
  refused,
]
export const mutants = [...fleetMutants, ...cutMutants, ...renameMutants, ...refusedMutants]
