/** The result of one check of `doctor`. */
export type Verdict = "wrong" | "warning" | "ok"

export interface Finding {
  readonly part:
    | "config"
    | "journal"
    | "clients"
    | "certificate"
    | "sink"
    | "disk"
    | "clock"
    | "port"
    | "secret"
    | "relay"
  /** Which sink, port, … */
  readonly name: string
  readonly verdict: Verdict
  /** It says what is wrong and what to do, or what was found in order. */
  readonly message: string
}

export type Findings = ReadonlyArray<Finding>

export const finder =
  (part: Finding["part"], name: string) =>
  (verdict: Verdict, message: string): Finding => ({ part, name, verdict, message })
