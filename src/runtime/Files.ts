/**
 * The owners of files, the file that a path leads to, the credentials that systemd
 * loads, and the processes that hold a lock or a port.
 */
import { execFileSync } from "node:child_process"
import {
  accessSync,
  closeSync,
  constants,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  type Stats,
  statSync,
} from "node:fs"
import { basename, dirname, isAbsolute, join, resolve } from "node:path"
import process from "node:process"
import { orUndefined } from "../event/Tolerance.ts"
import { codeOf } from "./Errors.ts"

/** Opens a file while `use` runs. A new file belongs to its owner alone. */
export const withFile = <A>(path: string, flags: string, use: (fd: number) => A): A => {
  const fd = openSync(path, flags, 0o600)
  try {
    return use(fd)
  } finally {
    closeSync(fd)
  }
}

// The user who runs the process is found by its number, because Bun's `userInfo` takes the name from `$USER`, which
// anybody can set.

/** The name of a number in the text of `/etc/passwd`. `undefined` if it has none. */
export const nameIn = (passwd: string, uid: number): string | undefined =>
  passwd
    .split("\n")
    .map((line) => line.split(":"))
    .find(([name, , number]) => name !== "" && number === String(uid))?.[0]

/** Returns the number of a name in the text of `/etc/passwd` or `/etc/group`, or `undefined` if it has none. */
export const numberIn = (text: string, name: string): number | undefined => {
  const found = text
    .split("\n")
    .map((line) => line.split(":"))
    .find(([known]) => known === name)?.[2]
  return found === undefined ? undefined : Number(found)
}

/** Returns the name of a user's number for messages, or else the number. */
const userOf = (uid: number): string =>
  orUndefined(() => nameIn(readFileSync("/etc/passwd", "utf8"), uid)) ?? String(uid)

const lookUp = (): string => {
  const uid = process.geteuid?.()
  if (uid === undefined) return "unknown"
  return (
    orUndefined(() => nameIn(readFileSync("/etc/passwd", "utf8"), uid)) ||
    // Users of a directory service and dynamic users of systemd are in no file.
    orUndefined(() =>
      execFileSync("/usr/bin/id", ["-un"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim(),
    ) ||
    String(uid)
  )
}

let found: string | undefined

/** The name of the user, or its number if the system has no name for it. */
export const localUser = (): string => {
  found ??= lookUp()
  return found
}

// Finds the owner of a file, for commands that an operator runs while the relay's service runs.

/** Returns the file at a path, or the nearest directory above it that can be examined. */
const nearest = (path: string) => {
  for (let at = resolve(path); ; at = dirname(at)) {
    try {
      return { at, ...statSync(at) }
    } catch {
      if (at === dirname(at)) return undefined
    }
  }
}

/**
 * Reports whether a file belongs to another user, in whose group this process's user is. Then this process is not the
 * relay, and its missing right to write says nothing. Root's files belong to no service.
 */
export const isOfServiceUser = (path: string): boolean => {
  const found = nearest(path)
  if (found === undefined || found.uid === 0 || found.uid === process.geteuid?.()) return false
  return process.getegid?.() === found.gid || (process.getgroups?.() ?? []).includes(found.gid)
}

/**
 * Says in sentences why this process may not read a file. Returns `undefined` if it may, or if the file doesn't exist.
 */
export const readDenial = (path: string): string | undefined => {
  try {
    accessSync(path, constants.R_OK)
    return undefined
  } catch (error) {
    const found = codeOf(error) === "EACCES" ? nearest(path) : undefined
    if (found === undefined) return undefined
    const what = found.at === resolve(path) ? "it" : found.at
    const mode = (found.mode & 0o7777).toString(8).padStart(4, "0")
    return `permission denied; ${what} belongs to the user ${userOf(found.uid)} and has the mode ${mode}. Run this command as that user, or as root.`
  }
}

/** The end of a sentence about a file whose write access was not checked. */
export const unchecked =
  "belongs to the relay's user, and this command runs as another of its group, so writing is not checked: run it as that user, or as root"

// Reports why a file that a command found by itself isn't trusted.
// **Guarantee.** A trusted file belongs to this process's user or to root, and no other user can write or replace it. A
// user's own private group counts as that user, and in a directory with the sticky bit nobody replaces another's file.
// **Gotcha.** From an access control list, only the group's permission is visible, which is the most that the list
// grants.

/** The contents of `/etc/passwd` and `/etc/group`. */
interface Accounts {
  readonly passwd: string
  readonly group: string
}

const linesOf = (text: string) => text.split("\n").map((line) => line.split(":"))

/**
 * Reports whether only the user and root are in a group. Returns `false` for a group
 * that is not in the system's files.
 */
export const isPrivate = (gid: number, uid: number, { passwd, group }: Accounts): boolean => {
  const entry = linesOf(group).find(([, , number]) => number === String(gid))
  if (entry === undefined) return false
  const allowed = [nameIn(passwd, uid), nameIn(passwd, 0)]
  const members = (entry[3] ?? "").split(",").filter((name) => name !== "")
  const primary = linesOf(passwd).flatMap(([name = "", , , number]) => (number === String(gid) ? [name] : []))
  return [...members, ...primary].every((name) => allowed.includes(name))
}

const accounts = (): Accounts => {
  const read = (path: string) => textOf(path) ?? ""
  return { passwd: read("/etc/passwd"), group: read("/etc/group") }
}

/** Returns the other users who may write, in words. */
const writers = ({ mode, gid }: Stats, uid: number): string | undefined => {
  const shown = `the mode is ${(mode & 0o7777).toString(8).padStart(4, "0")}`
  if ((mode & 0o002) !== 0) return `every user (${shown})`
  if ((mode & 0o020) === 0) return undefined
  const known = accounts()
  return isPrivate(gid, uid, known) ? undefined : `the group ${nameIn(known.group, gid) ?? gid} (${shown})`
}

const isStranger = (owner: number, uid: number): boolean => owner !== uid && owner !== 0

const ofDirectory = (path: string, uid: number): string | undefined => {
  const found = lstatSync(path)
  if (isStranger(found.uid, uid)) return `${path} belongs to the user ${userOf(found.uid)}, who can replace it there`
  const others = (found.mode & 0o1000) === 0 ? writers(found, uid) : undefined
  return others === undefined ? undefined : `${others} can replace it in ${path}`
}

/** `path` is a file, or a link. */
const ofEntry = (path: string, found: Stats, uid: number): string | undefined => {
  if (isStranger(found.uid, uid)) return `${path} belongs to the user ${userOf(found.uid)}`
  // Every link has the mode 0777, which has no effect.
  const others = found.isSymbolicLink() ? undefined : writers(found, uid)
  return others === undefined ? undefined : `${others} can write to ${path}`
}

const above = (directory: string): ReadonlyArray<string> => {
  const parent = dirname(directory)
  return parent === directory ? [directory] : [directory, ...above(parent)]
}

/** Maximum links that the system follows. */
const mostLinks = 40

const look = (file: string, uid: number): string | undefined => {
  for (let [at, links] = [resolve(file), 0]; links <= mostLinks; links++) {
    const found = lstatSync(at)
    const directory = realpathSync(dirname(at))
    // The process is already in its working directory, so directories above it don't matter.
    const directories = links === 0 ? [directory] : above(directory)
    const reasons = [ofEntry(at, found, uid), ...directories.map((path) => ofDirectory(path, uid))]
    const reason = reasons.find((text) => text !== undefined)
    if (reason !== undefined || !found.isSymbolicLink()) return reason
    at = resolve(directory, readlinkSync(at))
  }
  return undefined
}

/**
 * Returns why a file of the working directory, or the file that its link leads to,
 * isn't trusted. Returns `undefined` if it is.
 */
export const distrust = (file: string): string | undefined => {
  const uid = process.geteuid?.()
  // A file that is absent or can't be examined can't be read either.
  return uid === undefined ? undefined : orUndefined(() => look(file, uid))
}

// Identifies the file that a path leads to through links and mounts, with the same text for the same file.

const realDirectory = (directory: string): string => {
  try {
    return realpathSync(directory)
  } catch {
    const above = dirname(directory)
    return above === directory ? directory : join(realDirectory(above), basename(directory))
  }
}

/**
 * Returns the identity of the file at a path: device and inode, or the real path of
 * a file that doesn't exist. Never throws.
 */
export const fileIdentity = (path: string): string => {
  const absolute = resolve(path)
  // A file that can't be examined is identified by its name.
  const found = orUndefined(() => statSync(absolute, { throwIfNoEntry: false }))
  if (found !== undefined) return `${found.dev}:${found.ino}`
  return join(realDirectory(dirname(absolute)), basename(absolute))
}

// Reads the credentials of the packaged service from its unit files, as `systemctl` shows them.

/** The directories of units (systemd.unit(5)). The first directory that has a unit counts. */
const directories = [
  "/etc/systemd/system",
  "/run/systemd/system",
  "/usr/local/lib/systemd/system",
  "/usr/lib/systemd/system",
  "/lib/systemd/system",
]

const textOf = (path: string): string | undefined => orUndefined(() => readFileSync(path, "utf8"))

const namesIn = (directory: string): ReadonlyArray<string> =>
  (orUndefined(() => readdirSync(directory)) ?? []).filter((name) => name.endsWith(".conf"))

/**
 * Returns the texts of a unit and its drop-ins, in the order in which they apply.
 * Returns an empty list if there is no unit.
 */
const textsOf = (unit: string, roots: ReadonlyArray<string>): ReadonlyArray<string> => {
  const own = roots.map((root) => textOf(join(root, unit))).find((text) => text !== undefined)
  if (own === undefined) return []
  const dropIns = new Map<string, string>()
  for (const root of roots.toReversed()) {
    for (const name of namesIn(join(root, `${unit}.d`))) dropIns.set(name, join(root, `${unit}.d`, name))
  }
  const sorted = [...dropIns].toSorted(([one], [other]) => (one < other ? -1 : 1))
  return [own, ...sorted.map(([, path]) => textOf(path) ?? "")]
}

/**
 * Returns the file of each credential by its name. Returns `undefined` if the unit
 * doesn't exist, or if it loads credentials in a way that only systemd can follow.
 */
export const unitCredentials = (
  unit = "relay.service",
  roots = directories,
): ReadonlyMap<string, string> | undefined => {
  const texts = textsOf(unit, roots)
  if (texts.length === 0) return undefined
  const files = new Map<string, string>()
  for (const [, kind, value = ""] of texts
    .join("\n")
    .matchAll(/^[ \t]*((?:Load|Set|Import)Credential(?:Encrypted)?)[ \t]*=[ \t]*(.*?)[ \t]*$/gm)) {
    if (kind !== "LoadCredential") return undefined
    const [, name = "", path = ""] = /^([^:]+):(\/.+)$/.exec(value) ?? []
    // An empty value discards the credentials before it.
    if (value === "") files.clear()
    else if (name === "") return undefined
    else files.set(name, path)
  }
  return files
}

// Finds the process that holds a lock or listens on a port, if the system shows it:
// on Linux, for processes of the same user or for root. It examines every process,
// so it is called only when something is held that should be free.

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
  const name = textOf(`/proc/${pid}/comm`)?.trim()
  const line = textOf(`/proc/${pid}/cmdline`) ?? ""
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
export const lockHolderWords = (path: string, kind?: "WRITE" | "READ"): string | undefined =>
  lockHolder(path, kind)?.words

/** Returns the inodes of sockets that listen on a TCP port. */
const listening = (port: number): ReadonlyArray<string> =>
  ["/proc/net/tcp", "/proc/net/tcp6"].flatMap((file) =>
    (textOf(file) ?? "").split("\n").flatMap((line) => {
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
export const portHolderWords = (port: number): string | undefined => portHolder(port)?.words
