/** Files that are fetched or made once for all test processes. */
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs"
import { dirname, join } from "node:path"

/** Makes `target` if it is missing. If two processes make it at the same time, the first to end wins. */
export const madeOnce = (target: string, make: (path: string) => void): string => {
  if (existsSync(target)) return target
  mkdirSync(dirname(target), { recursive: true })
  const fresh = mkdtempSync(`${target}-`)
  try {
    const path = join(fresh, "made")
    make(path)
    renameSync(path, target)
  } catch (error) {
    if (!existsSync(target)) throw error
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
  return target
}
