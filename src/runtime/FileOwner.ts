/** Tells whose file it is, for commands that an operator runs beside the relay's service. */
import { statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import process from "node:process"

/** The file at a path, or the nearest directory above it that can be examined. */
const nearest = (path: string) => {
  for (let at = resolve(path); ; at = dirname(at)) {
    try {
      return statSync(at)
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

/** The end of a sentence. */
export const unchecked =
  "belongs to the relay's user, and this command runs as another of its group, so writing is not checked: run it as that user, or as root"
