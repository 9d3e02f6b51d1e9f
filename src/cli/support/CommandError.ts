/**
 * Why a command ends otherwise than well, and the exit code that says so.
 *
 * A message is for a person: what happened, to which thing, what to do now. An
 * empty one means that the command has printed all there is to say.
 */
import { Runtime, Schema } from "effect"

/** `failed`: a check did not hold, or the relay said no. The numbers are those of sysexits. */
export const exitCodes = { failed: 1, usage: 64, unreachable: 69, io: 74, config: 78 } as const

export class CommandError extends Schema.TaggedError<CommandError>()("CommandError", {
  reason: Schema.Literals(["failed", "usage", "unreachable", "io", "config"]),
  message: Schema.String,
}) {
  override readonly [Runtime.errorExitCode] = exitCodes[this.reason]
}

export const failed = (message = ""): CommandError => new CommandError({ reason: "failed", message })
export const usage = (message: string): CommandError => new CommandError({ reason: "usage", message })
export const unreachable = (message: string): CommandError => new CommandError({ reason: "unreachable", message })
export const misconfigured = (message: string): CommandError => new CommandError({ reason: "config", message })
export const io = (message: string): CommandError => new CommandError({ reason: "io", message })
