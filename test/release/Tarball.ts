/** Tar archives that have the same bytes on every machine, at every time and for every user. */
import { promisify } from "node:util"
import { gzip as zlibGzip } from "node:zlib"
import { pack } from "tar-stream"

export interface Entry {
  /** The path without a leading slash. A trailing slash makes it a directory. */
  readonly path: string
  readonly content?: string | Uint8Array
  /** The mode (default: 0644 for a file and 0755 for a directory). */
  readonly mode?: number
  /** The number of the user and the group (default: root's). */
  readonly owner?: number
  /** The target of a symbolic link. */
  readonly linkname?: string
}

/** Makes an archive. `time` is in epoch seconds. */
export const tar = async (entries: ReadonlyArray<Entry>, time: number): Promise<Buffer> => {
  const archive = pack()
  for (const { path, content = "", mode, owner = 0, linkname } of entries) {
    const isDirectory = path.endsWith("/")
    const header = {
      name: path,
      type: linkname !== undefined ? ("symlink" as const) : isDirectory ? ("directory" as const) : ("file" as const),
      mode: mode ?? (isDirectory ? 0o755 : 0o644),
      mtime: new Date(time * 1000),
      uid: owner,
      gid: owner,
      ...(linkname !== undefined && { linkname }),
    }
    archive.entry(header, Buffer.from(content))
  }
  archive.finalize()
  const chunks: Array<Uint8Array> = []
  for await (const chunk of archive) chunks.push(chunk as Uint8Array)
  return Buffer.concat(chunks)
}

/** Compresses outside the main thread, so that two archives can be made concurrently. */
export const gzip = (bytes: Uint8Array): Promise<Buffer> => promisify(zlibGzip)(bytes)
