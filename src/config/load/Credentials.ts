/**
 * The credentials of a relay that a package installed, for commands outside its
 * service: systemd tells their directory to the service alone.
 */
import { Effect, PlatformError, Result } from "effect"
import type { FileIdentity } from "../rules/SinkRules.ts"
import { installedFile } from "./ConfigText.ts"
import type { Environment } from "./References.ts"

/** The packaged unit loads credentials from here; only root may read it. */
const installedDirectory = "/etc/relay/secrets"

/** Commands know this of the host's service. */
export interface Host extends FileIdentity {
  /** The file of each credential that the unit loads; `undefined` if that is not known. */
  readonly unitCredentials?: () => ReadonlyMap<string, string> | undefined
}

const isInstalled = (file: string, { env, fileOf = (path) => path }: Environment & Host): boolean =>
  env.CREDENTIALS_DIRECTORY === undefined && fileOf(file) === fileOf(installedFile)

const notLoaded = (path: string) =>
  PlatformError.systemError({ _tag: "NotFound", module: "FileSystem", method: "readFile", pathOrDescriptor: path })

/** Adds the credentials that the unit loads, if the file is the installed config and no other directory is given. */
export const withInstalled = <E extends Environment & Host>(file: string, options: E): E => {
  if (!isInstalled(file, options)) return options
  const files = options.unitCredentials?.()
  const readFile: Environment["readFile"] = (path, most) => {
    const name = path.startsWith(`${installedDirectory}/`) ? path.slice(installedDirectory.length + 1) : undefined
    if (files === undefined || name === undefined) return options.readFile(path, most)
    const source = files.get(name)
    return source === undefined ? Effect.fail(notLoaded(path)) : options.readFile(source, most)
  }
  return { ...options, readFile, env: { ...options.env, CREDENTIALS_DIRECTORY: installedDirectory } }
}

/** Reports whether this process may look into the directory of the credentials. */
export const mayReadInstalled = (file: string, options: Environment & Host): Effect.Effect<boolean> =>
  isInstalled(file, options)
    ? Effect.map(
        // Its mode may let a stranger see that it is there, and nothing in it.
        Effect.result(options.readFile(`${installedDirectory}/.`)),
        (read) => Result.isSuccess(read) || read.failure.reason._tag !== "PermissionDenied",
      )
    : Effect.succeed(true)
