/** Which file a path leads to, through links and mounts: the same text for the same file. */
import { realpathSync, statSync } from "node:fs"
import { basename, dirname, join, resolve } from "node:path"

const realDirectory = (directory: string): string => {
  try {
    return realpathSync(directory)
  } catch {
    const above = dirname(directory)
    return above === directory ? directory : join(realDirectory(above), basename(directory))
  }
}

/** The identity of the file at a path: device and inode, or the real path of a file that is not there. Never throws. */
export const of = (path: string): string => {
  const absolute = resolve(path)
  try {
    const found = statSync(absolute, { throwIfNoEntry: false })
    if (found !== undefined) return `${found.dev}:${found.ino}`
  } catch {
    // A file that can't be examined is known by its name.
  }
  return join(realDirectory(dirname(absolute)), basename(absolute))
}
