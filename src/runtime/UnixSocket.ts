/**
 * A listener at a Unix socket, for a proxy on the same machine.
 *
 * It is bound under a name of its own, gets its mode and group, and is then
 * renamed to its path. So nobody connects before the rights are set, and a stale
 * file of a relay that was killed is replaced.
 *
 * **Gotcha.** Bun removes the name that a listener was bound under when it
 * closes, even if another process listens there by then.
 */
import { chmodSync, chownSync, lstatSync, readFileSync, renameSync, rmSync, type Stats } from "node:fs"
import { connect } from "node:net"
import process from "node:process"
import { Effect } from "effect"
import type { Socket } from "../config/Config.ts"
import { codeOf } from "./ErrorCode.ts"
import { numberIn } from "./LocalUser.ts"

const statOf = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false })

const groupNumber = (group: string): number => {
  const found = /^\d+$/.test(group) ? Number(group) : numberIn(readFileSync("/etc/group", "utf8"), group)
  if (found === undefined) throw new Error(`there is no group "${group}" on this machine`)
  return found
}

/** Calls `listen` with the name to bind. Throws if the path can't be listened on, or the rights can't be set. */
export const bind = <A>(path: string, { mode, group }: Socket, listen: (name: string) => A): A => {
  const gid = group === undefined ? undefined : groupNumber(group)
  const name = `${path}.${process.pid}`
  rmSync(name, { force: true })
  const mask = process.umask(0o177)
  try {
    const listener = listen(name)
    if (gid !== undefined) chownSync(name, process.geteuid?.() ?? -1, gid)
    chmodSync(name, mode)
    renameSync(name, path)
    return listener
  } catch (error) {
    rmSync(name, { force: true })
    throw error
  } finally {
    process.umask(mask)
  }
}

/** Identifies the socket at a path, so that {@link remove} leaves a later one alone. */
export const identify = (path: string): number | undefined => statOf(path)?.ino

/** Removes the socket if it is still the same one. */
export const remove = (path: string, identity: number | undefined): void => {
  if (identity !== undefined && identify(path) === identity) rmSync(path, { force: true })
}

/** Reports whether a listening socket was bound for this path. The kernel knows it by the name before it was renamed. */
const isListed = (path: string): boolean => {
  try {
    const names = readFileSync("/proc/self/net/unix", "utf8")
      .split("\n")
      .map((line) => line.split(" ").at(-1) ?? "")
    return names.some((name) => name.startsWith(`${path}.`) && /^\d+$/.test(name.slice(path.length + 1)))
  } catch {
    return false
  }
}

/** Inspects a path. A socket is stale if nothing listens there. */
export const inspect = (path: string): Effect.Effect<"free" | "stale" | "taken" | "no socket"> =>
  Effect.suspend(() => {
    const found = statOf(path)
    if (found === undefined) return Effect.succeed("free")
    if (!found.isSocket()) return Effect.succeed("no socket")
    return Effect.callback<"stale" | "taken">((resume) => {
      const socket = connect(path, () => {
        socket.destroy()
        resume(Effect.succeed("taken"))
      })
      socket.on("error", (error) => {
        // A user who may not connect sees it in the kernel's list.
        const isTaken = codeOf(error) !== "ECONNREFUSED" && isListed(path)
        resume(Effect.succeed(isTaken ? "taken" : "stale"))
      })
    })
  })
