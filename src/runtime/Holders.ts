/**
 * Finds the process that holds a lock or listens on a port, if the system shows it:
 * on Linux, for processes of the same user or for root. It examines every process,
 * so it is called only when something is held that should be free.
 */

import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs"
import { basename, isAbsolute, resolve } from "node:path"
import process from "node:process"

const orUndefined = <A>(look: () => A): A | undefined => {
  try {
    return look()
  } catch {
    return undefined
  }
}

/** A process that holds a lock or a port, as far as this user may see it. */
export interface Holder {
  /** For example `process 4711 (relay)`. */
  readonly words: string
  /** The path of its program; `undefined` if this user may not read its command. */
  readonly program: string | undefined
  readonly isRelay: boolean
  /** The config that a relay was started with; `undefined` if this user can't read it. */
  readonly config: string | undefined
}

/** Reports whether this user may inspect every process. */
export const seesAll = (): boolean => process.getuid?.() === 0

/** Reports whether a command runs a relay: the binary or the source, with `run`. */
const runsRelay = (program: string, args: ReadonlyArray<string>): boolean =>
  args.includes("run") && (basename(program).startsWith("relay") || args.some((arg) => /\bmain\.(?:ts|js)$/.test(arg)))

const configOf = (pid: number, args: ReadonlyArray<string>): string | undefined => {
  const at = args.findIndex((arg) => arg === "-c" || arg === "--config")
  const named = at === -1 ? args.find((arg) => arg.startsWith("--config="))?.slice("--config=".length) : args[at + 1]
  if (named === undefined || isAbsolute(named)) return named
  const directory = orUndefined(() => readlinkSync(`/proc/${pid}/cwd`))
  return directory && resolve(directory, named)
}

const holderOf = (pid: number): Holder => {
  const name = orUndefined(() => readFileSync(`/proc/${pid}/comm`, "utf8").trim())
  const line = orUndefined(() => readFileSync(`/proc/${pid}/cmdline`, "utf8")) ?? ""
  const [program = "", ...args] = line.replace(/\0$/, "").split("\0")
  const isRelay = runsRelay(program, args)
  return {
    words: name === undefined ? `process ${pid}` : `process ${pid} (${name})`,
    program: line === "" ? undefined : (orUndefined(() => readlinkSync(`/proc/${pid}/exe`)) ?? program),
    isRelay,
    config: isRelay ? configOf(pid, args) : undefined,
  }
}

/**
 * Returns a process that holds a lock on a file, by default a write lock. Returns
 * `undefined` if there is none or it is unknown.
 */
export const lockHolder = (path: string, kind: "WRITE" | "READ" = "WRITE"): Holder | undefined =>
  orUndefined(() => {
    const { ino } = statSync(path)
    // `3: POSIX  ADVISORY  WRITE 4711 fe:00:10092399 1073741824 1073742335`
    const form = new RegExp(`^\\d+: \\S+ +\\S+ +${kind} (\\d+) \\S+:${ino} `, "gm")
    const holders = [...readFileSync("/proc/locks", "utf8").matchAll(form)].map(([, pid]) => Number(pid))
    const holder = holders.find((pid) => pid !== process.pid) ?? holders[0]
    return holder === undefined ? undefined : holderOf(holder)
  })

/** Returns the process of {@link lockHolder} in words. */
export const ofLock = (path: string, kind?: "WRITE" | "READ"): string | undefined => lockHolder(path, kind)?.words

/** Returns the inodes of sockets that listen on a TCP port. */
const listening = (port: number): ReadonlyArray<string> =>
  ["/proc/net/tcp", "/proc/net/tcp6"].flatMap((file) =>
    (orUndefined(() => readFileSync(file, "utf8")) ?? "").split("\n").flatMap((line) => {
      const [, local = "", , state, , , , , , inode = ""] = line.trim().split(/\s+/)
      return state === "0A" && Number.parseInt(local.split(":")[1] ?? "", 16) === port ? [inode] : []
    }),
  )

/** Returns the process that listens on a TCP port, or `undefined` if there is none or it is unknown. */
export const portHolder = (port: number): Holder | undefined => {
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
  return holder === undefined ? undefined : holderOf(Number(holder))
}

/** Returns the process of {@link portHolder} in words. */
export const ofPort = (port: number): string | undefined => portHolder(port)?.words
