/**
 * Runs the command line and ends the process with its exit code.
 *
 * **Guarantee.** Every failure prints a message, and never a stack trace or the
 * minified source that a crash of a binary would print. An uncaught error of a sink's
 * library affects only this sink (`Containment.ts`). Any other uncaught error ends the
 * command as a signal does: its resources are closed, the journal first, and the exit
 * code reports a bug.
 */
import { Console, Duration, Effect, Fiber } from "effect"
import { drainTime } from "../config/Config.ts"
import * as Environment from "../runtime/Environment.ts"
import { onCrash } from "../runtime/Errors.ts"
import * as Process from "../runtime/Process.ts"
import * as Stderr from "../runtime/Stderr.ts"
import { run } from "./Cli.ts"
import { bug, report } from "./reports/exitReport.ts"
import { exitCodes } from "./support/CommandError.ts"
import { Columns, painted, screen } from "./support/output.ts"
import { commandOf, Program } from "./support/Program.ts"

/** `entry` is the main module's URL. Ends the process. */
export const start = async (entry: URL): Promise<never> => {
  Process.keepFlags()
  const started = Process.started()
  const debug = started.env.RELAY_DEBUG === "1"
  const stderr = Stderr.make()
  const console = screen({ ...globalThis.console, warn: stderr.line })
  const style = painted(Process.stderrIsTerminal() && (started.env.NO_COLOR ?? "") === "")
  let crashed: (() => void) | undefined
  onCrash((error) => {
    console.error(style("red", bug(error, debug)))
    // The command has not started, or this is the second crash.
    if (crashed === undefined) return Process.exit(exitCodes.bug)
    crashed()
    crashed = undefined
  })
  const refusal = Environment.refusal()
  if (refusal !== undefined) {
    console.error(style("red", `relay: ${refusal}`))
    return Process.exit(exitCodes.config)
  }
  Environment.goDirect()
  const program = Program.of({ entry, env: started.env, command: commandOf(started), giveWay: Process.giveWay })
  const columns = Process.columns()
  const fiber = Effect.runFork(
    run(Process.args()).pipe(
      Effect.provide(Process.services),
      Effect.provideService(Program, program),
      Effect.provideService(Columns, columns),
      Effect.provideService(Console.Console, console),
      Effect.provideService(Stderr.Stderr, stderr),
    ),
  )
  let isBug = false
  crashed = () => {
    isBug = true
    setTimeout(() => Process.exit(exitCodes.bug), Duration.toMillis(drainTime)).unref()
    fiber.interruptUnsafe()
  }
  const exit = await Effect.runPromise(Fiber.await(fiber))
  const { code, message } = isBug ? { code: exitCodes.bug, message: "" } : report(exit, debug, style, columns.stderr)
  if (message !== "") console.error(message)
  await stderr.flush()
  return Process.exit(code)
}
