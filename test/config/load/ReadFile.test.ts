import { describe, expect } from "bun:test"
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as NodeFileSystem from "@effect/platform-node-shared/NodeFileSystem"
import { Effect, FileSystem, Option, PlatformError } from "effect"
import { largest, readerOf, reasonOf } from "../../../src/config/load/References.ts"
import { it } from "../../lib/effect.ts"

/** Reads each named file of a directory. Returns its text, or why it can't be read. */
const read = Effect.fnUntraced(function* (make: (directory: string) => void, names: ReadonlyArray<string>) {
  const directory = mkdtempSync(join(tmpdir(), "relay-reading-"))
  yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(directory, { recursive: true })))
  make(directory)
  const readFile = readerOf(yield* FileSystem.FileSystem)
  return yield* Effect.forEach(names, (name) =>
    Effect.match(readFile(join(directory, name)), {
      onSuccess: (bytes) => new TextDecoder().decode(bytes),
      onFailure: ({ reason }) => reason._tag,
    }),
  )
})

describe("reading a config", () => {
  it.live("takes a file or a link to one, and waits for no pipe, device or directory", () =>
    Effect.gen(function* () {
      const make = (directory: string) => {
        writeFileSync(join(directory, "file"), "text")
        symlinkSync("file", join(directory, "link"))
        symlinkSync("/dev/zero", join(directory, "device"))
        mkdirSync(join(directory, "directory"))
        execFileSync("mkfifo", [join(directory, "pipe")])
      }
      expect(yield* read(make, ["file", "link", "device", "directory", "pipe", "nothing"])).toEqual([
        "text",
        "text",
        "BadResource",
        "BadResource",
        "BadResource",
        "NotFound",
      ])
    }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer), Effect.orDie),
  )
})

describe("a file that is too large", () => {
  it.effect("is not read, and reported", function* () {
    const fs = FileSystem.makeNoop({
      stat: () => Effect.succeed({ type: "File", size: 33n * 1024n * 1024n } as unknown as FileSystem.File.Info),
      readFile: () => Effect.die("it was read"),
    })
    expect(reasonOf(yield* Effect.flip(readerOf(fs)("/etc/relay/secret")))).toBe("it is larger than 32 MiB")
    const small = FileSystem.makeNoop({
      stat: () => Effect.succeed({ type: "File", size: 65_537n } as unknown as FileSystem.File.Info),
      readFile: () => Effect.die("it was read"),
    })
    const refused = yield* Effect.flip(readerOf(small)("/etc/relay/secret", largest.value))
    expect(reasonOf(refused)).toBe("it is larger than 64 KiB")
  })
})

describe("a file of another user", () => {
  it.effect("is reported with its owner and mode", function* () {
    const denied = PlatformError.systemError({ _tag: "PermissionDenied", module: "FileSystem", method: "readFile" })
    const fs = FileSystem.makeNoop({
      stat: () => Effect.succeed({ type: "File", uid: Option.some(998), mode: 0o100640 } as FileSystem.File.Info),
      readFile: () => Effect.fail(denied),
    })
    const error = yield* Effect.flip(readerOf(fs)("/etc/relay/secret"))
    expect(reasonOf(error)).toBe("permission denied; it belongs to the user 998 and has the mode 0640")
  })
})
