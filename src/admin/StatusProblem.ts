/**
 * The problem states of a running relay, and their levels.
 *
 * `critical`: deliveries are refused, events were lost, or a sink receives nothing
 * until an operator acts. `warning`: nothing is lost, and it can wait until morning.
 * `note`: worth knowing, but needs no action and does not count.
 */
export type Level = "critical" | "warning" | "note"

/** Each state has a runbook with the same name in docs/operations/runbooks.md. */
export const states = {
  "not-ready": "critical",
  "journal-full": "critical",
  "journal-broken": "critical",
  "journal-red": "critical",
  "journal-nearly-full": "critical",
  "journal-filling": "warning",
  "journal-warning": "warning",
  "sink-misconfigured": "critical",
  "sink-blocked": "critical",
  "sink-failed": "critical",
  "sink-stalled": "critical",
  "sink-orphaned": "critical",
  "sink-waiting": "warning",
  "sink-failing": "warning",
  "sink-paused": "warning",
  "dead-letters": "warning",
  quarantine: "warning",
  "no-valid-secret": "critical",
  "secret-expired": "warning",
  "secret-expiring": "warning",
  "certificate-expired": "critical",
  "certificate-incomplete": "critical",
  "certificate-expiring": "warning",
  "certificate-issuer-unknown": "note",
  "relay-silent": "warning",
  "configs-differ": "warning",
  "reload-refused": "warning",
  "signatures-fail": "critical",
  "sender-silent": "warning",
  "deliveries-refused": "warning",
  "stranger-refused": "note",
  "unknown-path": "note",
  stopping: "note",
} as const satisfies Record<string, Level>
export type State = keyof typeof states

/** A problem of a running relay, in words. */
export interface StatusProblem {
  readonly state: State
  /** The subject: `journal`, `config`, a sink or a webhook. */
  readonly name: string
  readonly lines: ReadonlyArray<string>
  /** The action to take; empty if the lines already say it. */
  readonly action: string
}

const levels: ReadonlyArray<Level> = ["critical", "warning", "note"]

export const levelOf = ({ state }: Pick<StatusProblem, "state">): Level => states[state]

/** Compares levels for sorting. Returns a negative number if `a` is worse. */
export const byLevel = (a: Level | undefined, b: Level | undefined): number => rank(a) - rank(b)
const rank = (level: Level | undefined): number => (level === undefined ? levels.length : levels.indexOf(level))
