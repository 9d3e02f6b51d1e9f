/**
 * Reports why a file that a command found by itself isn't trusted.
 *
 * **Guarantee.** A trusted file belongs to this process's user or to root, and no
 * other user can write or replace it. A user's own private group counts as that
 * user, and in a directory with the sticky bit nobody replaces another's file.
 *
 * **Gotcha.** Of an access list only the group's permission is seen, which is the
 * most that the list grants.
 */
import { lstatSync, readFileSync, readlinkSync, realpathSync, type Stats } from "node:fs"
import { dirname, resolve } from "node:path"
import process from "node:process"
import { nameIn, userOf } from "./LocalUser.ts"

/** The texts that name users and groups. */
export interface Accounts {
  readonly passwd: string
  readonly group: string
}

const linesOf = (text: string) => text.split("\n").map((line) => line.split(":"))

/** Reports whether nobody but the user and root is in a group; `false` for a group that the system's files don't have. */
export const isPrivate = (gid: number, uid: number, { passwd, group }: Accounts): boolean => {
  const entry = linesOf(group).find(([, , number]) => number === String(gid))
  if (entry === undefined) return false
  const allowed = [nameIn(passwd, uid), nameIn(passwd, 0)]
  const members = (entry[3] ?? "").split(",").filter((name) => name !== "")
  const primary = linesOf(passwd).flatMap(([name = "", , , number]) => (number === String(gid) ? [name] : []))
  return [...members, ...primary].every((name) => allowed.includes(name))
}

const accounts = (): Accounts => {
  const read = (path: string) => {
    try {
      return readFileSync(path, "utf8")
    } catch {
      return ""
    }
  }
  return { passwd: read("/etc/passwd"), group: read("/etc/group") }
}

/** The other users who may write, in words. */
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
  // Every link has the mode 0777, which means nothing.
  const others = found.isSymbolicLink() ? undefined : writers(found, uid)
  return others === undefined ? undefined : `${others} can write to ${path}`
}

const above = (directory: string): ReadonlyArray<string> => {
  const parent = dirname(directory)
  return parent === directory ? [directory] : [directory, ...above(parent)]
}

/** The links that the system follows at most. */
const mostLinks = 40

const look = (file: string, uid: number): string | undefined => {
  for (let [at, links] = [resolve(file), 0]; links <= mostLinks; links++) {
    const found = lstatSync(at)
    const directory = realpathSync(dirname(at))
    // The process is in its working directory already, whoever renames a directory above it.
    const directories = links === 0 ? [directory] : above(directory)
    const reasons = [ofEntry(at, found, uid), ...directories.map((one) => ofDirectory(one, uid))]
    const reason = reasons.find((one) => one !== undefined)
    if (reason !== undefined || !found.isSymbolicLink()) return reason
    at = resolve(directory, readlinkSync(at))
  }
  return undefined
}

/** Why a file of the working directory, or the file that its link leads to, isn't trusted; `undefined` if it is. */
export const distrust = (file: string): string | undefined => {
  const uid = process.geteuid?.()
  if (uid === undefined) return undefined
  try {
    return look(file, uid)
  } catch {
    // A file that is absent or can't be examined can't be read either.
    return undefined
  }
}
