/**
 * Runs the command line and ends the process with its exit code.
 *
 * **Guarantee.** Every failure prints a message, never a stack trace nor the
 * minified source that a crash of a binary would print.
 */
import { Console, Effect } from "effect"
import * as Environment from "../../runtime/Environment.ts"
import * as Process from "../../runtime/Process.ts"
import { run } from "../Cli.ts"
import { exitCodes } from "./CommandError.ts"
import { bug, report } from "./exitReport.ts"
import { painted, screen } from "./output.ts"
import { commandOf, Program } from "./Program.ts"

/** `entry` is the main module's URL. Ends the process. */
export const start = async (entry: URL): Promise<never> => {
  const started = Process.started()
  const debug = started.env.RELAY_DEBUG === "1"
  const console = screen(globalThis.console)
  const style = painted(Process.stderrIsTerminal() && (started.env.NO_COLOR ?? "") === "")
  Process.onCrash((error) => {
    console.error(style("red", bug(error, debug)))
    Process.exit(1)
  })
  const refusal = Environment.refusal()
  if (refusal !== undefined) {
    console.error(style("red", `relay: ${refusal}`))
    return Process.exit(exitCodes.config)
  }
  Environment.goDirect()
  const program = Program.of({ entry, env: started.env, command: commandOf(started) })
  const exit = await Effect.runPromiseExit(
    run(Process.args()).pipe(
      Effect.provide(Process.services),
      Effect.provideService(Program, program),
      Effect.provideService(Console.Console, console),
    ),
  )
  const { code, message } = report(exit, debug, style)
  if (message !== "") console.error(message)
  return Process.exit(code)
}
