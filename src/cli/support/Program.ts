/** Facts about the program that commands need: its environment and how it was started. */
import { Context, Duration, Effect } from "effect"
import { quoted } from "../../formats/Texts.ts"
import type { Started } from "../../runtime/Process.ts"

export class Program extends Context.Service<
  Program,
  {
    /** The main module, which the journal's worker starts from. */
    readonly entry: URL
    /** The words that start this program on the command line, such as `relay` or `bun src/main.ts`. */
    readonly command: string
    readonly env: Readonly<Record<string, string | undefined>>
    /** Lets other processes go first, for long work beside a relay. Absent if this process isn't the command's own. */
    readonly giveWay?: () => void
  }
>()("relay/cli/Program") {}

/** Returns the path relative to `cwd` if it is below `cwd`. */
const fromHere = (path: string, cwd: string): string => (path.startsWith(`${cwd}/`) ? path.slice(cwd.length + 1) : path)

/** Returns the command that starts the program from the same directory, so that printed commands can be pasted. */
export const commandOf = ({ isCompiled, runtime, runtimeVersion, execPath, main, cwd, env }: Started): string => {
  // The launcher of the npm package uses its own Bun, which may not be in PATH.
  const launcher = env.RELAY_LAUNCHER
  if (launcher !== undefined) return env.npm_command === "exec" ? "npx relay" : quoted(fromHere(launcher, cwd))
  const slash = execPath.lastIndexOf("/")
  const directory = execPath.slice(0, slash)
  if (isCompiled) {
    if ((env.PATH ?? "").split(":").includes(directory)) return quoted(execPath.slice(slash + 1))
    const path = fromHere(execPath, cwd)
    return quoted(path.includes("/") ? path : `./${path}`)
  }
  const script = quoted(fromHere(main, cwd))
  if (runtime === "deno") return `deno run -A ${script}`
  return env.npm_command === "exec" ? `npx -y bun@${runtimeVersion} ${script}` : `bun ${script}`
}

/** Imports a part of the program on demand, so that a command loads only the parts that it uses. */
export const lazily = <A>(load: () => Promise<A>): Effect.Effect<A> => Effect.promise(load)

// The time limit of a check. A service that does not answer in time counts as unreachable.

const usual = Duration.seconds(10)

/** Interrupts the check after ten seconds or another time. `onTimeout` gets the time as text. */
export const withDeadline =
  <B, E2, R2>(onTimeout: (time: string) => Effect.Effect<B, E2, R2>, duration = usual) =>
  <A, E, R>(check: Effect.Effect<A, E, R>): Effect.Effect<A | B, E | E2, R | R2> =>
    Effect.timeoutOrElse(check, { duration, orElse: () => onTimeout(Duration.format(duration)) })
