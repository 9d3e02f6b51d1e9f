/**
 * The mark of a file sink: the hidden file `.NAME.mark` beside the file, which
 * says from which byte on the relay alone has written. Only those bytes may be
 * repaired.
 *
 * **Guarantee.** The mark is durable before the first byte that it covers.
 */
import { open, readFile, rename } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import { codeOf } from "../../runtime/ErrorCode.ts"

export interface Mark {
  readonly inode: number
  /** All bytes from here on are the relay's. */
  readonly from: number
  /** The end of a batch that begins at `from` and is larger than the part that is read at the end of a file. */
  readonly to: number
}

/** Syncs a directory: only then is a new name in it durable. */
export const syncDirectory = async (path: string): Promise<void> => {
  const handle = await open(path, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const markOf = (path: string): string => join(dirname(path), `.${basename(path)}.mark`)

/** The mark of the file at `path`; `undefined` if there is none. */
export const readMark = async (path: string): Promise<Mark | undefined> => {
  try {
    const { inode, from, to }: Partial<Mark> = JSON.parse(await readFile(markOf(path), "utf8"))
    return [inode, from, to].every(Number.isSafeInteger) ? ({ inode, from, to } as Mark) : undefined
  } catch (error) {
    if (error instanceof SyntaxError || codeOf(error) === "ENOENT" || codeOf(error) === "EACCES") return undefined
    throw error
  }
}

const mayNotWrite = new Set(["EACCES", "EPERM", "EROFS"])

/**
 * Stores the mark, and syncs the directory with it. If the relay may write to the file alone, the mark and the repair
 * are left out.
 */
export const writeMark = async (path: string, mark: Mark): Promise<void> => {
  const [target, draft] = [markOf(path), `${markOf(path)}.new`]
  try {
    const handle = await open(draft, "w", 0o640)
    try {
      await handle.writeFile(`${JSON.stringify(mark)}\n`)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(draft, target)
    await syncDirectory(dirname(path))
  } catch (error) {
    if (!mayNotWrite.has(codeOf(error))) throw error
  }
}
