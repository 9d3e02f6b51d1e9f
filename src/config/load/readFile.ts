/**
 * Reads the config and the files that it refers to.
 *
 * **Gotcha.** Opening a pipe that nobody writes to blocks for ever, and so would
 * every later reload. Only what the process was started with, such as
 * `/dev/stdin`, may be a pipe.
 */
import { Effect, type FileSystem, PlatformError } from "effect"

const handed = /^\/(?:dev\/(?:stdin$|fd\/)|proc\/self\/fd\/)/

const noFile = (path: string) =>
  PlatformError.systemError({ _tag: "BadResource", module: "FileSystem", method: "readFile", pathOrDescriptor: path })

/** As `readFile`, of regular files. */
export const readerOf =
  ({ readFile, stat }: FileSystem.FileSystem) =>
  (path: string): Effect.Effect<Uint8Array, PlatformError.PlatformError> =>
    handed.test(path)
      ? readFile(path)
      : Effect.flatMap(stat(path), ({ type }) => (type === "File" ? readFile(path) : Effect.fail(noFile(path))))
