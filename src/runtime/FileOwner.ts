/** Tells whose file it is, for commands that an operator runs beside the relay's service. */
import { accessSync, constants, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import process from "node:process"
import { codeOf } from "./ErrorCode.ts"
import { userOf } from "./LocalUser.ts"

/** The file at a path, or the nearest directory above it that can be examined. */
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
 * Whether a file belongs to another user than this process's, in whose group it
 * is: then this process is not the relay, and what it may not write says nothing.
 * Root's files are nobody's service.
 */
export const isOfServiceUser = (path: string): boolean => {
  const found = nearest(path)
  if (found === undefined || found.uid === 0 || found.uid === process.geteuid?.()) return false
  return process.getegid?.() === found.gid || (process.getgroups?.() ?? []).includes(found.gid)
}

/** Why this process may not read a file, in sentences; `undefined` where it may, or none is there. */
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

/** The end of a sentence. */
export const unchecked =
  "belongs to the relay's user, and this command runs as another of its group, so writing is not checked: run it as that user, or as root"
