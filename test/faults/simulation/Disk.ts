/**
 * The journal's files under faults: a commit that a crash cuts in two, a checkpoint that it interrupts, a disk that
 * fails.
 *
 * SQLite is the real one, on real files. Each life has a directory. A crash copies the files as they are at that
 * moment, and the next life opens the copy. Nobody sees later writes of the dead life to its own files.
 *
 * **Torn bytes.** Only bytes that the interrupted statement wrote: before a COMMIT has answered, its frames may be on
 * disk up to any byte, or sector by sector in any order. Bytes that were synced before are there.
 */
import {
  closeSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import type { Draw } from "./Draw.ts"

/** A fault of one COMMIT. */
export type CommitFault =
  | "crash before commit"
  | "crash after commit"
  | "torn commit"
  | "disk full"
  | "busy"
  /** The fsync of the commit fails: its events may be on disk or not. */
  | "fsync fails"

/** SQLite's extended result codes (sqlite.org/rescode.html): FULL, BUSY, IOERR_FSYNC. */
const codes = { "disk full": 13, busy: 5, "fsync fails": 1034 } as const

/** The files of a journal. Its lock and SQLite's shared memory die with the process. */
const files = ["", "-wal", "-mark"] as const

const sector = 4_096
const walHeader = 32
const checkpoint = "PRAGMA wal_checkpoint(PASSIVE)"
/** In memory if possible: the result of a crash is decided here, not by the machine's disk. */
const ground = existsSync("/dev/shm") ? "/dev/shm" : tmpdir()

const sqliteError = (fault: keyof typeof codes): Error =>
  Object.assign(new Error(`simulated: ${fault}`), { errcode: codes[fault] })

/** One file for all: the journal leaves a ballast of the right size alone, and writing 4 MiB a life would take the longest. */
let shared: string | undefined
const ballast = (): string => {
  if (shared === undefined || !existsSync(shared)) {
    const directory = mkdtempSync(join(ground, "relay-ballast-"))
    const file = join(directory, "ballast")
    process.once("exit", () => rmSync(directory, { recursive: true, force: true }))
    writeFileSync(file, Buffer.alloc(4 * 1024 * 1024, 1))
    shared = file
  }
  return shared
}

const descriptors = "/proc/self/fd"

/** Returns the file that a descriptor of this process has open. The descriptor that listed them is gone by now. */
const opened = (descriptor: string): string | undefined => {
  try {
    return readlinkSync(join(descriptors, descriptor))
  } catch {
    return undefined
  }
}

export class Disk {
  /** Called at each COMMIT. */
  commitFault: () => CommitFault | undefined = () => undefined
  /** Whether the process dies in the middle of this checkpoint. */
  crashInCheckpoint: () => boolean = () => false
  /** The process dies here and now. */
  onCrash: () => void = () => {}
  readonly #draw: Draw
  readonly #root = mkdtempSync(join(ground, "relay-simulation-"))
  readonly #open = new Set<DatabaseSync>()
  #life = 0
  #hasBallast = false

  constructor(draw: Draw) {
    this.#draw = draw
    this.#nextLife()
  }

  get path(): string {
    return join(this.#directory, "journal.db")
  }

  get #directory(): string {
    return join(this.#root, String(this.#life))
  }

  /** The process dies here: the next life opens the files as they are, with the files in `torn` replaced. */
  crash(torn: Readonly<Record<string, Buffer>> = {}): void {
    const from = this.path
    this.#nextLife()
    for (const suffix of files) {
      const bytes = torn[suffix]
      if (bytes !== undefined) writeFileSync(this.path + suffix, bytes)
      else if (existsSync(from + suffix)) copyFileSync(from + suffix, this.path + suffix)
    }
    this.onCrash()
  }

  /**
   * Closes the files that dead processes left open: a hundred thousand seeds have more lives than there are
   * descriptors.
   */
  closeLeftOpen(): void {
    for (const db of this.#open) if (db.isOpen) db.close()
    this.#open.clear()
    for (const name of existsSync(descriptors) ? readdirSync(descriptors) : []) {
      if (opened(name)?.startsWith(this.#root)) closeSync(Number(name))
    }
  }

  remove(): void {
    this.closeLeftOpen()
    rmSync(this.#root, { recursive: true, force: true })
  }

  /** Intercepts the journal's calls to SQLite while `work` runs. */
  watch<A>(work: () => A): A {
    const { prepare } = DatabaseSync.prototype
    const open = this.#open
    const intercept = (statement: StatementSync, name: "run" | "get", by: (act: () => unknown) => unknown): void => {
      const act = statement[name].bind(statement)
      Object.defineProperty(statement, name, { value: () => by(act) })
    }
    const commit = (act: () => unknown) => this.#commit(act)
    const pass = (act: () => unknown) => this.#checkpoint(act)
    const give = () => this.#giveBallast()
    DatabaseSync.prototype.prepare = function (sql) {
      open.add(this)
      give()
      const statement = prepare.call(this, sql)
      if (sql === "COMMIT") intercept(statement, "run", commit)
      if (sql === checkpoint) intercept(statement, "get", pass)
      return statement
    }
    try {
      return work()
    } finally {
      DatabaseSync.prototype.prepare = prepare
    }
  }

  #nextLife(): void {
    this.#life += 1
    mkdirSync(this.#directory)
    this.#hasBallast = false
  }

  /** Not before the journal is opened: a ballast without a journal is a trace of a journal that is gone. */
  #giveBallast(): void {
    if (this.#hasBallast) return
    this.#hasBallast = true
    linkSync(ballast(), `${this.path}-ballast`)
  }

  #commit(act: () => unknown): unknown {
    const fault = this.commitFault()
    switch (fault) {
      case undefined:
        return act()
      case "disk full":
      case "busy":
        throw sqliteError(fault)
      case "fsync fails":
        if (this.#draw.chance(0.5)) act()
        throw sqliteError(fault)
      case "crash before commit":
        this.crash()
        return act()
      case "crash after commit": {
        const done = act()
        this.crash()
        return done
      }
      case "torn commit": {
        const before = this.#read("-wal")
        const done = act()
        // A log that is restarted has its new header synced before any frame: SQLite sees to that.
        this.crash({ "-wal": this.#torn(before, this.#read("-wal"), walHeader) })
        return done
      }
    }
  }

  #checkpoint(act: () => unknown): unknown {
    if (!this.crashInCheckpoint()) return act()
    const [database, log] = [this.#read(""), this.#read("-wal")]
    const done = act()
    this.crash({ "": this.#torn(database, this.#read(""), 0), "-wal": log })
    return done
  }

  #read(suffix: string): Buffer {
    return existsSync(this.path + suffix) ? readFileSync(this.path + suffix) : Buffer.alloc(0)
  }

  /**
   * Returns some of the bytes written between the two: up to a byte, or any of the sectors. The first `whole` bytes are
   * always there.
   */
  #torn(before: Buffer, after: Buffer, whole: number): Buffer {
    let from = Math.min(whole, after.length)
    while (from < before.length && before[from] === after[from]) from += 1
    const cut = this.#draw.int(from, after.length)
    if (this.#draw.chance(0.5)) return Buffer.concat([after.subarray(0, cut), before.subarray(cut)])
    const torn = Buffer.alloc(after.length)
    before.copy(torn)
    after.copy(torn, 0, 0, from)
    for (let at = from; at < after.length; at += sector - (at % sector)) {
      const end = at + sector - (at % sector)
      if (this.#draw.chance(0.5)) after.copy(torn, at, at, end)
    }
    return torn
  }
}
