/**
 * The credentials of a relay that a package installed, for commands outside its
 * service: systemd tells their directory to the service alone.
 */
import type { FileIdentity } from "../rules/SinkRules.ts"
import { installedFile } from "./ConfigText.ts"
import type { Environment } from "./References.ts"

/** The packaged unit loads credentials from here; only root may read it. */
const installedDirectory = "/etc/relay/secrets"

/** With that directory where the file is the installed config and no other directory is given. */
export const withInstalled = <E extends Environment & FileIdentity>(file: string, options: E): E => {
  const { env, fileOf = (path: string) => path } = options
  if (env.CREDENTIALS_DIRECTORY !== undefined || fileOf(file) !== fileOf(installedFile)) return options
  return { ...options, env: { ...env, CREDENTIALS_DIRECTORY: installedDirectory } }
}
