/**
 * Reads the config and the files that it names.
 *
 * **Gotcha.** Opening a pipe without a writer never returns, and would block every
 * later reload. Only what the process was given at its start, such as
 * `/dev/stdin`, may be a pipe.
 */
import { Effect, type FileSystem, PlatformError } from "effect"

const inherited = /^\/(?:dev\/(?:stdin$|fd\/)|proc\/self\/fd\/)/

const noFile = (path: string) =>
  PlatformError.systemError({ _tag: "BadResource", module: "FileSystem", method: "readFile", pathOrDescriptor: path })

/** `readFile` for regular files only. */
export const readerOf =
  ({ readFile, stat }: FileSystem.FileSystem) =>
  (path: string): Effect.Effect<Uint8Array, PlatformError.PlatformError> =>
    inherited.test(path)
      ? readFile(path)
      : Effect.flatMap(stat(path), ({ type }) => (type === "File" ? readFile(path) : Effect.fail(noFile(path))))
