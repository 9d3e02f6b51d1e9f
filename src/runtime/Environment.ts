/**
 * Checks environment variables that change the runtime. They turn off certificate
 * checks, print requests with their tokens, open a debugger's port, or set a proxy
 * for all requests of `fetch`, even to this machine.
 *
 * **Guarantee.** The first three are refused at the start, because neither runtime
 * can override them for every connection. Requests to this machine and to the admin
 * API use no proxy.
 */
import { readFileSync } from "node:fs"
import process from "node:process"
import { orUndefined } from "../event/Tolerance.ts"
import { isCompiled } from "./Runtime.ts"

/** Environment variables, as `process.env` has them. */
export type Environment = Record<string, string | undefined>

/** The command line of this process, if the system shows it. */
const commandLine = (): ReadonlyArray<string> =>
  orUndefined(() => readFileSync("/proc/self/cmdline", "utf8").split("\0")) ?? []

/** The working directory, or `undefined` if it was deleted. */
export const workingDirectory = (): string | undefined => orUndefined(() => process.cwd())

const unchecked = "it would accept any certificate, and the relay always checks them"
const instead = "trust a certificate of your own by a sink's `tls.ca`, or by NODE_EXTRA_CA_CERTS"

/** Says why the relay does not start in this environment, and what to do. Returns `undefined` if it does. */
export const refusal = (
  env: Environment = process.env,
  args: ReadonlyArray<string> = commandLine(),
  compiled: boolean = isCompiled,
): string | undefined => {
  // Bun treats both as "don't check".
  if (["0", "false"].includes(env.NODE_TLS_REJECT_UNAUTHORIZED ?? "")) {
    return `NODE_TLS_REJECT_UNAUTHORIZED is ${env.NODE_TLS_REJECT_UNAUTHORIZED}: ${unchecked}\n  Unset it; ${instead}`
  }
  if (args.some((arg) => arg.startsWith("--unsafely-ignore-certificate-errors"))) {
    return `Deno was started with --unsafely-ignore-certificate-errors: ${unchecked}\n  Take the flag away; ${instead}`
  }
  const verbose = env.BUN_CONFIG_VERBOSE_FETCH ?? ""
  if (verbose !== "" && verbose !== "0" && verbose !== "false") {
    return "BUN_CONFIG_VERBOSE_FETCH is set: it would print every request with its tokens\n  Unset it"
  }
  if (compiled && (env.BUN_INSPECT ?? "") !== "") {
    return "BUN_INSPECT is set: a debugger at its port could read every secret\n  Unset it; a terminal of an editor may have set it"
  }
  if (workingDirectory() === undefined) {
    return "the working directory was deleted\n  Change to a directory that exists, and start it again"
  }
  return undefined
}

/** Of 127.0.0.0/8, only 127.0.0.1, because NO_PROXY has no ranges. */
const thisMachine = ["localhost", "127.0.0.1", "::1", "[::1]"]

/**
 * Disables the proxy for these hosts and this machine from now on. Sets both
 * spellings of the variable, because a runtime reads only one of them.
 */
export const goDirect = (hosts: ReadonlyArray<string> = [], env: Environment = process.env): void => {
  const given = [env.NO_PROXY, env.no_proxy].flatMap((list) => (list ?? "").split(",").map((host) => host.trim()))
  const direct = [...new Set([...given, ...thisMachine, ...hosts])].filter((host) => host !== "").join(",")
  env.NO_PROXY = direct
  env.no_proxy = direct
}
