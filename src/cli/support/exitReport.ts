/** From how a command ended to an exit code and the words for it. */
import { Cause, Exit, Result, Runtime } from "effect"
import { CliError } from "effect/cli"
import type { ConfigError } from "../../config/diagnostics/Diagnostic.ts"
import type { JournalError } from "../../journal/Journal.ts"
import type { ServeError } from "../../runtime/Runtime.ts"
import { type CommandError, exitCodes } from "./CommandError.ts"

/** All that a command may fail with; each has a message for a person. */
export type Failure = CommandError | ConfigError | JournalError | ServeError | CliError.CliError

export interface Report {
  readonly code: number
  /** For stderr; empty when all has been said. */
  readonly words: string
}

/** A bug, in one line. Its message may hold anything, so it is kept back unless asked for. */
export const bug = (defect: unknown, debug: boolean): string => {
  const kind = defect instanceof Error ? defect.name : typeof defect
  const words = `relay: this is a bug in relay (${kind}), not a mistake of yours.`
  if (!debug) return `${words} Run it again with RELAY_DEBUG=1 to see the cause, and report it.`
  return `${words}\n${Cause.pretty(Cause.die(defect))}`
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

const wordsOf = (failure: Failure): string => {
  // The presenter has printed what was wrong with the command line.
  if (CliError.isCliError(failure)) return ""
  if (failure._tag === "ConfigError" || failure.message === "") return failure.message
  return `relay: ${failure.message}`
}

export const report = (exit: Exit.Exit<void, Failure>, debug: boolean): Report => {
  if (Exit.isSuccess(exit)) return { code: 0, words: "" }
  const failure = Cause.findError(exit.cause)
  if (Result.isSuccess(failure)) return { code: codeOf(failure.success), words: wordsOf(failure.success) }
  if (Cause.hasInterruptsOnly(exit.cause)) return { code: 130, words: "" }
  return { code: 1, words: bug(Cause.squash(exit.cause), debug) }
}
