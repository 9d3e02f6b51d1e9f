/**
 * Controls a relay that runs over the shim (preload.ts, disk.c): the disk that SQLite sees, and the relay's clock.
 *
 * It works on the compiled binary and on the source. It needs only Bun: no compiler, no root.
 *
 * **Gotcha.** It sees SQLite's calls and those that Bun makes through libc; a plain `writeSync` is a system call of
 * Bun's own.
 */
import { closeSync, openSync, readSync, writeFileSync, writeSync } from "node:fs"
import { join } from "node:path"

/** Linux's numbers. */
export const errors = { EIO: 5, ENOSPC: 28 } as const
export type ErrorName = keyof typeof errors

/** Byte offsets of `struct control` in disk.c. */
const at = {
  skew: 0,
  writeError: 8,
  syncError: 16,
  inLog: 24,
  hits: 28,
  disk: 32,
  foreign: 40,
  lastWrite: 48,
  passFirst: 56,
  readError: 60,
} as const
const controlBytes = 4_096

export interface Fault {
  readonly call: "write" | "sync" | "read"
  readonly error: ErrorName
  /** The write-ahead log, or the journal's file itself. */
  readonly on: "wal" | "file"
  readonly times: number
  /** Number of calls that succeed before the first fails. */
  readonly passFirst?: number
}

export const reasonToSkip = (): string | undefined =>
  process.platform === "linux" ? undefined : "it stands between the relay and Linux: run it there, or in a container"

export class Shim {
  /** Path of the recorded calls, which Trace.ts reads. */
  readonly trace: string
  readonly env: Readonly<Record<string, string>>
  readonly #fd: number

  /** `journal` is the path of the journal's file; `normal` makes SQLite run with `synchronous=NORMAL`. */
  constructor(
    directory: string,
    journal: string,
    options: { readonly trace?: boolean; readonly normal?: boolean } = {},
  ) {
    const control = join(directory, "shim.control")
    this.trace = join(directory, "shim.trace")
    writeFileSync(control, Buffer.alloc(controlBytes))
    this.#fd = openSync(control, "r+")
    this.env = {
      BUN_OPTIONS: `--preload=${join(import.meta.dir, "preload.ts")}`,
      RELAY_SHIM_CONTROL: control,
      RELAY_SHIM_PREFIX: journal,
      ...(options.trace === true ? { RELAY_SHIM_TRACE: this.trace } : {}),
      ...(options.normal === true ? { RELAY_SHIM_NORMAL: "1" } : {}),
    }
  }

  /** Makes the next `times` calls fail, after `passFirst` that succeed. */
  fail({ call, error, on, times, passFirst = 0 }: Fault): void {
    this.#put32(at.passFirst, passFirst)
    this.#put32(at.inLog, on === "wal" ? 1 : 0)
    const first = { write: at.writeError, sync: at.syncError, read: at.readError }[call]
    this.#put32(first, errors[error])
    this.#put32(first + 4, times)
  }

  /** How many calls have failed. */
  get hits(): number {
    const bytes = Buffer.alloc(4)
    readSync(this.#fd, bytes, 0, 4, at.hits)
    return bytes.readUInt32LE()
  }

  /** Kills the process, as kill -9 does, right after its next `writes`th write and before the sync that follows. */
  dieAfter(writes: number): void {
    this.#put64(at.lastWrite, writes)
  }

  /** Sets the relay's wall clock ahead, in milliseconds; back when negative. */
  skew(millis: number): void {
    this.#put64(at.skew, millis)
  }

  /** Pretends that the journal's disk has `bytes` bytes, and that others use `foreign` of them. */
  disk(bytes: number, foreign: number): void {
    this.#put64(at.foreign, foreign)
    this.#put64(at.disk, bytes)
  }

  close(): void {
    closeSync(this.#fd)
  }

  #put32(offset: number, value: number): void {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32LE(value)
    writeSync(this.#fd, bytes, 0, 4, offset)
  }

  #put64(offset: number, value: number): void {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(value))
    writeSync(this.#fd, bytes, 0, 8, offset)
  }
}
