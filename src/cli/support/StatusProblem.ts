/** Something that is wrong with a running relay, and what to do about it. */
export type Severity = "red" | "yellow" | "green"

export interface StatusProblem {
  /** What it is about: `journal`, `config`, a sink or a webhook. */
  readonly name: string
  readonly severity: Severity
  readonly lines: ReadonlyArray<string>
  /** What to do; empty where the lines say it. */
  readonly action: string
}
