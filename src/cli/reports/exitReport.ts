/** The exit code of a command and the message for it. */
import { Cause, Exit, Result, Runtime } from "effect"
import { CliError } from "effect/cli"
import { type ConfigError, render } from "../../config/diagnostics/Diagnostic.ts"
import type { JournalError } from "../../journal/Journal.ts"
import type { ServeError } from "../../runtime/Runtime.ts"
import { type CommandError, exitCodes } from "../support/CommandError.ts"
import { folded, marked, type Paint, painted } from "../support/output.ts"

export type Failure = CommandError | ConfigError | JournalError | ServeError | CliError.CliError

interface Report {
  readonly code: number
  /** The text for stderr; empty if everything was already printed. */
  readonly message: string
}

/** Describes a bug in one line. Its message may contain secrets or payloads, so it is shown only on request. */
export const bug = (defect: unknown, debug: boolean): string => {
  const kind = defect instanceof Error ? defect.name : typeof defect
  const message = `relay: internal error (${kind}).`
  if (!debug) return `${message} Run the command again with RELAY_DEBUG=1 to see the cause, and report it.`
  return `${message}\n${Cause.pretty(Cause.die(defect))}`
}

const codeOf = (failure: Failure): number => {
  switch (failure._tag) {
    case "JournalError":
    case "ServeError":
      return exitCodes.io
    case "CommandError":
    case "ConfigError":
      return Runtime.getErrorExitCode(failure)
    default:
      return exitCodes.usage
  }
}

const messageOf = (failure: Failure, style: Paint): string => {
  // The presenter has already printed it.
  if (CliError.isCliError(failure)) return ""
  if (failure._tag === "ConfigError") return render(failure.diagnostics, marked(style))
  return failure.message === "" ? "" : style("red", `relay: ${failure.message}`)
}

const reportOf = (exit: Exit.Exit<void, Failure>, debug: boolean, style: Paint): Report => {
  if (Exit.isSuccess(exit)) return { code: 0, message: "" }
  const failure = Cause.findError(exit.cause)
  if (Result.isSuccess(failure)) return { code: codeOf(failure.success), message: messageOf(failure.success, style) }
  if (Cause.hasInterruptsOnly(exit.cause)) return { code: 130, message: "" }
  return { code: exitCodes.bug, message: style("red", bug(Cause.squash(exit.cause), debug)) }
}

/** Formats the exit of a command for a terminal with `width` columns. */
export const report = (
  exit: Exit.Exit<void, Failure>,
  debug: boolean,
  style: Paint = painted(false),
  width: number = Number.POSITIVE_INFINITY,
): Report => {
  const { code, message } = reportOf(exit, debug, style)
  return { code, message: folded(message, width) }
}
