/**
 * Reads the config and the files that it names.
 *
 * **Gotcha.** Opening a pipe without a writer never returns, and would block every
 * later reload. Only what the process was given at its start, such as
 * `/dev/stdin`, may be a pipe.
 */
import { Context, Effect, type FileSystem, Option, PlatformError } from "effect"

const inherited = /^\/(?:dev\/(?:stdin$|fd\/)|proc\/self\/fd\/)/

/** The largest files that are read, in bytes. */
export const largest = {
  /** A config of 100,000 routes has less. */
  config: 32 * 1024 * 1024,
  /** Secrets, tokens and other values. */
  value: 64 * 1024,
  /** Certificates and keys: a system's list of all authorities has less. */
  certificates: 1024 * 1024,
}

/** A pipe may take the place of a file just before it is opened. */
const patience = "10 seconds"

const sizeInWords = (bytes: number): string =>
  bytes < 1024 * 1024 ? `${bytes / 1024} KiB` : `${bytes / 1024 / 1024} MiB`

const noFile = (path: string, description?: string) =>
  PlatformError.systemError({
    _tag: "BadResource",
    module: "FileSystem",
    method: "readFile",
    pathOrDescriptor: path,
    ...(description !== undefined && { description }),
  })

/** The owner's number and the mode of a file that may not be read, as `ls -n` shows them. */
const withOwner = (error: PlatformError.PlatformError, { uid, mode }: FileSystem.File.Info) => {
  const { reason } = error
  if (reason._tag !== "PermissionDenied" || Option.isNone(uid)) return error
  const description = `it belongs to the user ${uid.value} and has the mode ${(mode & 0o7777).toString(8).padStart(4, "0")}`
  return PlatformError.systemError({
    _tag: "PermissionDenied",
    module: "FileSystem",
    method: "readFile",
    pathOrDescriptor: reason.pathOrDescriptor ?? "",
    description,
  })
}

/** Files by their paths, with the text that each had when it was last read: empty where it could not be. */
export type FileTexts = Map<string, string>

/** The files that loading a config reads, for whoever watches them. Pipes are not among them. */
export const ReadFiles = Context.Reference<FileTexts | undefined>("relay/config/load/ReadFiles", {
  defaultValue: () => undefined,
})

/** `readFile` for regular files only; what it reads is noted in `files`. */
export const readerOf =
  ({ readFile, stat }: FileSystem.FileSystem, files?: FileTexts) =>
  (path: string, most = largest.config): Effect.Effect<Uint8Array, PlatformError.PlatformError> => {
    if (inherited.test(path)) return readFile(path)
    const note = (text: string) => Effect.sync(() => files?.set(path, text))
    const read = (found: FileSystem.File.Info) => {
      if (found.type !== "File") return Effect.fail(noFile(path))
      if (found.size > most) return Effect.fail(noFile(path, `it is larger than ${sizeInWords(most)}`))
      return readFile(path).pipe(
        Effect.mapError((error) => withOwner(error, found)),
        Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.fail(noFile(path, "it does not open")) }),
      )
    }
    return Effect.flatMap(stat(path), read).pipe(
      Effect.tap((bytes) => note(new TextDecoder().decode(bytes))),
      Effect.tapError(() => note("")),
    )
  }
