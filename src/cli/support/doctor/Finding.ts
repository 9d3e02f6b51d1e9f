/** What `doctor` found, one thing looked at. */
export type Verdict = "wrong" | "warning" | "ok"

export interface Finding {
  readonly part: "config" | "sink" | "disk" | "clock" | "port" | "secret" | "relay"
  /** Which one. */
  readonly name: string
  readonly verdict: Verdict
  /** What is the matter and what to do; of what is well, what was seen. */
  readonly message: string
}

export type Findings = ReadonlyArray<Finding>

export const finder =
  (part: Finding["part"], name: string) =>
  (verdict: Verdict, message: string): Finding => ({ part, name, verdict, message })
