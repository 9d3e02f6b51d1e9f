/** Tar archives that are the same bytes whenever, wherever and by whomever they are made. */
import { promisify } from "node:util"
import { gzip as zlibGzip } from "node:zlib"
import { pack } from "tar-stream"

export interface Entry {
  /** Without a slash at its begin; with one at its end it is a directory. */
  readonly path: string
  readonly content?: string | Uint8Array
  /** 0644 of a file and 0755 of a directory unless told. */
  readonly mode?: number
  /** The number of the user and the group (default: root's). */
  readonly owner?: number
  /** The target of a symbolic link. */
  readonly linkname?: string
}

/** `time` is in epoch seconds. */
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

/** Beside the main thread, so that two are made at once. */
export const gzip = (bytes: Uint8Array): Promise<Buffer> => promisify(zlibGzip)(bytes)
