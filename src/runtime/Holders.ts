/**
 * Finds who holds a lock or listens on a port, where the system says so: Linux, and
 * processes of the same user or for root. It costs a look at every process, so it
 * is asked only when something is held that should be free.
 */

import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs"
import process from "node:process"

/** A process, in words: `process 4711 (relay)`. */
const inWords = (pid: number): string => {
  try {
    return `process ${pid} (${readFileSync(`/proc/${pid}/comm`, "utf8").trim()})`
  } catch {
    return `process ${pid}`
  }
}

const orUndefined = <A>(look: () => A): A | undefined => {
  try {
    return look()
  } catch {
    return undefined
  }
}

/** A process that holds a lock on a file, by default one for writing; `undefined` where there is none, or none is known. */
export const ofLock = (path: string, kind: "WRITE" | "READ" = "WRITE"): string | undefined =>
  orUndefined(() => {
    const { ino } = statSync(path)
    // `3: POSIX  ADVISORY  WRITE 4711 fe:00:10092399 1073741824 1073742335`
    const form = new RegExp(`^\\d+: \\S+ +\\S+ +${kind} (\\d+) \\S+:${ino} `, "gm")
    const holders = [...readFileSync("/proc/locks", "utf8").matchAll(form)].map(([, pid]) => Number(pid))
    const holder = holders.find((pid) => pid !== process.pid) ?? holders[0]
    return holder === undefined ? undefined : inWords(holder)
  })

/** The inodes of sockets that listen on a TCP port. */
const listening = (port: number): ReadonlyArray<string> =>
  ["/proc/net/tcp", "/proc/net/tcp6"].flatMap((file) =>
    (orUndefined(() => readFileSync(file, "utf8")) ?? "").split("\n").flatMap((line) => {
      const [, local = "", , state, , , , , , inode = ""] = line.trim().split(/\s+/)
      return state === "0A" && Number.parseInt(local.split(":")[1] ?? "", 16) === port ? [inode] : []
    }),
  )

/** The process that listens on a TCP port; `undefined` where there is none, or none is known. */
export const ofPort = (port: number): string | undefined => {
  const sockets = new Set(listening(port).map((inode) => `socket:[${inode}]`))
  if (sockets.size === 0) return undefined
  const holder = orUndefined(() => readdirSync("/proc"))?.find(
    (pid) =>
      /^\d+$/.test(pid) &&
      orUndefined(() => readdirSync(`/proc/${pid}/fd`))?.some((fd) => {
        const target = orUndefined(() => readlinkSync(`/proc/${pid}/fd/${fd}`))
        return target !== undefined && sockets.has(target)
      }),
  )
  return holder === undefined ? undefined : inWords(Number(holder))
}
