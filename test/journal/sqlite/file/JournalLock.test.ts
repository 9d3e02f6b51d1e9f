/** The lock of a journal: only one process opens a file, through any path. */
import { afterEach, describe, expect, test } from "bun:test"
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import {
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { dirname, join } from "node:path"
import { open } from "../../../../src/journal/sqlite/file/Store.ts"
import { options } from "../../temporary.ts"

/** Opens a journal, prints the result, and keeps the journal open until it is killed. */
const script = `
  import { open } from ${JSON.stringify(`${import.meta.dir}/../../../../src/journal/sqlite/file/Store.ts`)}
  try {
    globalThis.store = open(process.argv[1])
    console.log("opened")
    setInterval(() => {}, 1_000)
  } catch (error) {
    console.log(error.message)
  }`

const running: Array<ChildProcess> = []

afterEach(async () => {
  for (const child of running.splice(0)) {
    child.kill("SIGKILL")
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit")
  }
})

/** Opens this journal in another process, which keeps it open if it can. Returns the message of that process. */
const opening = async (path: string, ...before: ReadonlyArray<string>): Promise<string> => {
  const [command = "", ...args] = [...before, process.execPath, "-e", script, path]
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] })
  running.push(child)
  const [text] = await once(child.stdout, "data")
  return String(text).trimEnd()
}

/** A journal that was used and closed, and another directory for a second path to it. */
const closed = () => {
  const { path } = options()
  open(path).close()
  const other = `${dirname(path)}.other`
  mkdirSync(other)
  return { path, other: join(other, "journal.db") }
}

const canMount = spawnSync("unshare", ["--user", "--map-root-user", "--mount", "true"]).status === 0

describe("a journal that another process runs on", () => {
  test("is refused by the same path, and the process is named", async () => {
    const { path } = closed()
    expect(await opening(path)).toBe("opened")
    expect(() => open(path)).toThrow(`Another relay is running on the journal ${path}: process ${running[0]?.pid} (`)
  })

  test("is refused through a hard link, and the file is refused from then on", async () => {
    const { path, other } = closed()
    expect(await opening(path)).toBe("opened")
    linkSync(path, other)
    expect(() => open(other)).toThrow(`The journal ${other} has 2 names (hard links)`)
    expect(await opening(other)).toContain("has 2 names (hard links)")
    expect(await opening(path)).toContain("Another relay is running")
    rmSync(other)
    expect(existsSync(`${other}-wal`)).toBe(false)
  })

  test("is refused by a symbolic link, which names the same lock", async () => {
    const { path, other } = closed()
    symlinkSync(path, other)
    expect(await opening(other)).toBe("opened")
    expect(() => open(path)).toThrow(`holds the lock ${path}-lock`)
    expect(existsSync(`${other}-lock`)).toBe(false)
  })

  test("is refused if its lock file was replaced", async () => {
    const { path } = closed()
    expect(await opening(path)).toBe("opened")
    rmSync(`${path}-lock`)
    expect(() => open(path)).toThrow(`which it reaches by another path: process ${running[0]?.pid} (`)
  })

  test.if(canMount)("is refused by a mount of the file, and by a mount of its directory", async () => {
    const { path, other } = closed()
    writeFileSync(other, "")
    expect(await opening(path)).toBe("opened")
    const mounted = (from: string, to: string) =>
      opening(
        other,
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        `mount --bind ${from} ${to} && exec "$@"`,
        "sh",
      )
    expect(await mounted(path, other)).toContain("which it reaches by another path")
    expect(await mounted(dirname(path), dirname(other))).toContain("holds the lock")
  })

  test("doesn't lock a copy, even with a copied lock file", async () => {
    const { path } = closed()
    expect(await opening(path)).toBe("opened")
    const copy = `${dirname(path)}.copy`
    cpSync(dirname(path), copy, { recursive: true })
    open(join(copy, "journal.db")).close()
  })
})

describe("a lock file that is damaged", () => {
  test("is replaced, and the journal is used as it is", () => {
    const { path } = closed()
    writeFileSync(`${path}-lock`, "garbage ".repeat(1_000))
    const store = open(path)
    expect(store.problems).toEqual([])
    store.close()
    expect(readFileSync(`${path}-lock`, "latin1")).not.toContain("garbage")
  })

  test("still holds while the relay runs whose lock it is", async () => {
    const { path } = closed()
    expect(await opening(path)).toBe("opened")
    const { ino } = statSync(`${path}-lock`)
    writeFileSync(`${path}-lock`, "garbage ".repeat(1_000))
    expect(() => open(path)).toThrow("Another relay is running")
    expect(statSync(`${path}-lock`).ino).toBe(ino)
  })
})
