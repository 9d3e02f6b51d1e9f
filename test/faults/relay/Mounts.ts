/** Mounts that only the relay sees, if mounting is allowed, so that nothing is left behind. */
import { spawnSync } from "node:child_process"

/**
 * Returns the command that gives a process its own mounts, or `undefined` if the shell line `mount` is not allowed
 * there.
 */
export const namespace = (mount: string): ReadonlyArray<string> | undefined =>
  [
    ["unshare", "--mount"],
    ["unshare", "--user", "--map-root-user", "--mount"],
  ].find(([command = "", ...words]) => spawnSync(command, [...words, "sh", "-c", mount]).status === 0)

/** A line of shell for `Start.after`: the script calls itself once more, in the namespace, and mounts there. */
export const mounting = (words: ReadonlyArray<string>, mount: string): string =>
  `[ -n "$RELAY_INSIDE" ] || RELAY_INSIDE=1 exec ${words.join(" ")} "$0" "$@"; ${mount}`
