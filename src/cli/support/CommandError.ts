/**
 * The error of a command, with its exit code.
 *
 * A message says what happened, where, and what to do. An empty message means that
 * the command has already printed one.
 */
import { Runtime, Schema } from "effect"

/**
 * `failed` means that a check failed or the relay refused. `warning`, `critical` and `unknown` are the codes of
 * monitoring plugins, for `status --exit-code`. The other numbers are from sysexits.
 */
export const exitCodes = {
  failed: 1,
  warning: 1,
  critical: 2,
  unknown: 3,
  usage: 64,
  unreachable: 69,
  bug: 70,
  io: 74,
  again: 75,
  config: 78,
} as const

export class CommandError extends Schema.TaggedError<CommandError>()("CommandError", {
  reason: Schema.Literals([
    "failed",
    "warning",
    "critical",
    "unknown",
    "usage",
    "unreachable",
    "io",
    "again",
    "config",
  ]),
  message: Schema.String,
  /** Whether this user lacks the token, so that the relay may be fine. */
  isDenied: Schema.optionalKey(Schema.Boolean),
}) {
  override readonly [Runtime.errorExitCode] = exitCodes[this.reason]
}

export const failed = (message = ""): CommandError => new CommandError({ reason: "failed", message })
export const usage = (message: string): CommandError => new CommandError({ reason: "usage", message })
export const unreachable = (message: string): CommandError => new CommandError({ reason: "unreachable", message })
export const misconfigured = (message: string): CommandError => new CommandError({ reason: "config", message })
export const io = (message: string): CommandError => new CommandError({ reason: "io", message })
/** Ends the process so that the service manager starts it again. */
export const again = (message: string): CommandError => new CommandError({ reason: "again", message })
