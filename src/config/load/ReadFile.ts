/**
 * Reads the config and the files that it names.
 *
 * **Gotcha.** Opening a pipe without a writer never returns, and would block every
 * later reload. Only what the process was given at its start, such as
 * `/dev/stdin`, may be a pipe.
 */
import { Context, Effect, type FileSystem, PlatformError } from "effect"

const inherited = /^\/(?:dev\/(?:stdin$|fd\/)|proc\/self\/fd\/)/

const noFile = (path: string) =>
  PlatformError.systemError({ _tag: "BadResource", module: "FileSystem", method: "readFile", pathOrDescriptor: path })

/** Files by their paths, with the text that each had when it was last read: empty where it could not be. */
export type FileTexts = Map<string, string>

/** The files that loading a config reads, for whoever watches them. Pipes are not among them. */
export const ReadFiles = Context.Reference<FileTexts | undefined>("relay/config/load/ReadFiles", {
  defaultValue: () => undefined,
})

/** `readFile` for regular files only; what it reads is noted in `files`. */
export const readerOf =
  ({ readFile, stat }: FileSystem.FileSystem, files?: FileTexts) =>
  (path: string): Effect.Effect<Uint8Array, PlatformError.PlatformError> => {
    if (inherited.test(path)) return readFile(path)
    const note = (text: string) => Effect.sync(() => files?.set(path, text))
    return Effect.flatMap(stat(path), ({ type }) =>
      type === "File" ? readFile(path) : Effect.fail(noFile(path)),
    ).pipe(
      Effect.tap((bytes) => note(new TextDecoder().decode(bytes))),
      Effect.tapError(() => note("")),
    )
  }
