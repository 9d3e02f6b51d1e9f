/**
 * Disks and file systems that fail, each mounted for one process only. Messages name the disk of the journal or of a
 * backup, and no other disk matters.
 */
import { describe, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import process from "node:process"
import { open } from "../../../../src/journal/sqlite/file/Store.ts"
import { namespace } from "../../../faults/relay/Mounts.ts"
import { options } from "../../temporary.ts"

/** The start of a command whose process has its own mounts, or `undefined` if this user may not mount. */
const mounts = namespace("mount -t tmpfs tmpfs /mnt")
const skipped = mounts === undefined ? " (skipped: this user may not mount)" : ""

const imports = `
  import { Effect } from "effect"
  import { Engine } from "${import.meta.dir}/../../../../src/journal/sqlite/commit/Engine.ts"
  import { open } from "${import.meta.dir}/../../../../src/journal/sqlite/file/Store.ts"
  import { backup, vacuum } from "${import.meta.dir}/../../../../src/journal/sqlite/maintenance/Maintenance.ts"
  import { causeOf } from "${import.meta.dir}/../../../../src/journal/sqlite/file/SqliteFailure.ts"
  import { scan } from "${import.meta.dir}/../../../../src/journal/sqlite/operations/StartupScan.ts"
  import { event, retrying, settlement } from "${import.meta.dir}/../../samples.ts"
`

/** Runs a script in its own process, after a line of shell that mounts. Returns its output. */
const printed = (script: string, mount = "true", env: Readonly<Record<string, string>> = {}): string => {
  const shell = ["sh", "-c", `${mount} && exec "$@"`, "sh"]
  const [command = "", ...words] = [...(mounts ?? []), ...shell, process.execPath, "-e", imports + script]
  const { stdout, stderr } = spawnSync(command, words, { env: { ...process.env, ...env } })
  return `${stdout}${stderr}`.trim()
}

/** A new directory beside a journal. */
const directory = (path: string, name: string): string => {
  const at = join(dirname(path), name)
  mkdirSync(at, { recursive: true })
  return at
}

const text = (value: string): string => JSON.stringify(value)

describe("SQLite's temporary files", () => {
  test.if(mounts !== undefined)(`are not written, so a full disk for them stops nothing${skipped}`, () => {
    const at = options()
    const full = directory(at.path, "full")
    const script = `
      const at = ${JSON.stringify({ ...at, duplicates: { count: 10, age: 1_000 } })}
      const engine = new Engine(open(at.path), at)
      for (const _ of scan(engine, at, Date.now()));
      const body = new Uint8Array(20_000).fill(65)
      await Promise.all(Array.from({ length: 400 }, (_, n) => engine.appendUnsafe(event("e" + n, { body }), ["lake"])))
      const settled = (last) => {
        const retry = Array.from({ length: 10 }, (_, n) => retrying(last - n)).toReversed()
        return new Promise((done) => engine.settle([settlement("lake", last, { retry, delivered: [] })], done))
      }
      const exits = [await settled(10), await settled(20), await settled(30)]
      console.log(exits.map((exit) => exit._tag).join(" "), engine.space.message)
      engine.stop()
      engine.store.close()
      console.log((await Effect.runPromiseExit(vacuum(at.path)))._tag)
      process.exit()`
    const mount = `mount -t tmpfs -o size=4k tmpfs ${full} && head -c 4096 /dev/zero > ${full}/x`
    expect(printed(script, mount, { SQLITE_TMPDIR: full })).toBe("Success Success Success \nSuccess")
  })
})

describe("the disk of a journal", () => {
  for (const [what, mount, told] of [
    ["is full", "head -c 65536 /dev/zero > AT/x || true", "the disk of AT is full. Free some space"],
    [
      "can hold no more files",
      "mount -o remount,nr_inodes=2 AT",
      "the disk of AT can hold no more files, though it has free space (`df -i`). Delete files there",
    ],
    ["is read-only", "mount -o remount,ro AT", "the file system of AT is read-only. The kernel's log says why"],
  ] as const) {
    test.if(mounts !== undefined)(`is named if it ${what}${skipped}`, () => {
      const disk = directory(options().path, "disk")
      const script = `console.log(causeOf(${text(join(disk, "journal.db"))}, false))`
      const prepare = `mount -t tmpfs -o size=64k tmpfs ${disk} && touch ${disk}/journal.db-mark && ${mount.replace("AT", disk)}`
      expect(printed(script, prepare)).toBe(told.replace("AT", disk))
    })
  }
})

describe("a new journal on a disk that can hold no more files", () => {
  test.if(mounts !== undefined)(`is refused with that reason${skipped}`, () => {
    const disk = directory(options().path, "few")
    const script = `try { open(${text(join(disk, "journal.db"))}) } catch ({ message }) { console.log(message) }`
    expect(printed(script, `mount -t tmpfs -o nr_inodes=1 tmpfs ${disk}`)).toContain(
      `the disk of ${disk} can hold no more files`,
    )
  })
})

describe("a backup to a disk that is full", () => {
  test.if(mounts !== undefined)(`names that disk, and leaves no part of a copy${skipped}`, () => {
    const at = options()
    open(at.path).close()
    const small = directory(at.path, "small")
    const script = `
      const exit = await Effect.runPromiseExit(backup(${text(at.path)}, ${text(join(small, "copy.db"))}))
      console.log(exit.cause.reasons[0].error.message)
      console.log((await import("node:fs")).readdirSync(${text(small)}).length)`
    expect(printed(script, `mount -t tmpfs -o size=64k tmpfs ${small}`).split("\n")).toEqual([
      `The journal ${at.path} could not be copied to ${small}/copy.db: the disk of ${small} is full.`,
      "0",
    ])
  })
})

describe("a journal that is mounted without its directory", () => {
  test.if(mounts !== undefined)(`is refused, because its write-ahead log would be elsewhere${skipped}`, () => {
    const at = options()
    const other = join(directory(at.path, "other"), "journal.db")
    writeFileSync(at.path, "")
    writeFileSync(other, "")
    const script = `try { open(${text(other)}) } catch ({ message }) { console.log(message) }`
    expect(printed(script, `mount --bind ${at.path} ${other}`)).toBe(
      `The journal can't be opened: ${other} is mounted without its directory, so the write-ahead log beside it would be on another disk; mount the directory.`,
    )
  })
})

describe("a file system without locks", () => {
  test.if(process.platform === "linux")("is named, and not another relay", () => {
    const { path } = options()
    // A filter of system calls (seccomp) answers each lock with ENOLCK, as NFS does without a lock service.
    const script = `
      const { dlopen, ptr } = await import("bun:ffi")
      const { prctl } = dlopen("libc.so.6", {
        prctl: { args: ["int", "u64", "u64", "u64", "u64"], returns: "int" },
      }).symbols
      const fcntl = process.arch === "arm64" ? 25 : 72
      const [load, ifEqual, answer] = [0x20, 0x15, 0x06]
      const filter = [
        [load, 0, 0, 0],
        [ifEqual, 0, 4, fcntl],
        [load, 0, 0, 24],
        [ifEqual, 1, 0, 6],
        [ifEqual, 0, 1, 37],
        [answer, 0, 0, 0x50000 | 37],
        [answer, 0, 0, 0x7fff0000],
      ]
      const code = Buffer.alloc(filter.length * 8)
      for (const [at, [what, yes, no, value]] of filter.entries()) {
        code.writeUInt16LE(what, at * 8)
        code.writeUInt8(yes, at * 8 + 2)
        code.writeUInt8(no, at * 8 + 3)
        code.writeUInt32LE(value, at * 8 + 4)
      }
      const program = Buffer.alloc(16)
      program.writeUInt16LE(filter.length, 0)
      program.writeBigUInt64LE(BigInt(ptr(code)), 8)
      if (prctl(38, 1, 0, 0, 0) !== 0 || prctl(22, 2, ptr(program), 0, 0) !== 0) console.log("no filter")
      try { open(${text(path)}) } catch ({ message }) { console.log(message) }`
    expect(printed(script)).toContain(
      `The journal ${path} can't be opened: the file system of ${dirname(path)} gives no lock on ${path}-lock`,
    )
    expect(existsSync(path)).toBe(false)
  })
})
