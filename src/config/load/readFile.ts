/**
 * Reading the config and the files that it names.
 *
 * **Trap.** To open a pipe that nobody writes to waits for ever, and with it
 * each later reload. Only what was handed to the process at its start, such as
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
