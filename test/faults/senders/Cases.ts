/** The table of hostile requests. A new kind is a file in `cases` and a line here. */
import type { Case } from "./Case.ts"
import * as Bodies from "./cases/Bodies.ts"
import * as Chunks from "./cases/Chunks.ts"
import * as Heads from "./cases/Heads.ts"
import * as Paths from "./cases/Paths.ts"
import * as Pipelines from "./cases/Pipelines.ts"
import * as Signatures from "./cases/Signatures.ts"
import * as Smuggling from "./cases/Smuggling.ts"

export const cases: ReadonlyArray<Case> = [
  ...Smuggling.cases,
  ...Chunks.cases,
  ...Heads.cases,
  ...Paths.cases,
  ...Pipelines.cases,
  ...Signatures.cases,
  ...Bodies.cases,
]
