/**
 * The relay while nobody reads its output: it still answers, delivers and stops. RELAY_UNDER selects the runtime, or
 * the binary.
 */
import { afterEach, describe, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { closeSync, constants, existsSync, openSync, readFileSync, readSync } from "node:fs"
import { join } from "node:path"
import { deliver, envelope, secret, writeConfig } from "../lib/kit.ts"
import { command } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const cwd = temporaryDirectory("stdio-")
const cleanups: Array<() => void> = []
afterEach(() => {
  for (const cleanup of cleanups.splice(0)) cleanup()
})

let pipes = 0
/** A pipe whose reader has stopped. `read` reads until `isDone` accepts the text. */
const pipe = () => {
  pipes += 1
  const path = join(cwd, `pipe-${pipes}`)
  spawnSync("mkfifo", [path])
  const writing = openSync(path, constants.O_RDWR)
  const reading = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  cleanups.push(() => [writing, reading].forEach(closeSync))
  let text = ""
  const chunk = Buffer.alloc(64 * 1024)
  const some = (): number => {
    try {
      return readSync(reading, chunk)
    } catch {
      return 0
    }
  }
  const read = async (isDone: (text: string) => boolean): Promise<string> => {
    for (;;) {
      const length = some()
      text += chunk.subarray(0, length).toString("latin1")
      if (length > 0) continue
      if (isDone(text)) return text
      await Bun.sleep(5)
    }
  }
  /** Whether a write by another process that shares the pipe would block. */
  const isBlocking = (): boolean => {
    const flags = /^flags:\t(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${writing}`, "utf8"))?.[1] ?? ""
    return (Number.parseInt(flags, 8) & constants.O_NONBLOCK) === 0
  }
  return { writing, read, isBlocking }
}

const letters = "abcdefghijklmnopqrst"
/** Names without digits, because the log counts lines that differ only in digits as repeats. */
const names = Array.from({ length: 400 }, (_, index) =>
  `${letters[Math.floor(index / 20)]}${letters[index % 20]}`.padEnd(100, "x"),
)

/** Runs a program on a terminal. After a line on stdin it reads the terminal, prints it, and then the exit code. */
const terminal = `
import os, pty, subprocess, sys, threading
reading, terminal = pty.openpty()
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal)
os.close(terminal)
print(child.pid, flush=True)
sys.stdin.readline()
try:
    while True: os.write(1, os.read(reading, 65536))
except OSError: pass
print("exit", child.wait(), flush=True)
`

/** Writes a config. `ask` sends a request to the admin API. */
const configure = async (sinks: object, webhooks: ReadonlyArray<string>) => {
  const webhook = (name: string) => ({ path: `/${name}`, secrets: [{ name: "main", value: secret }] })
  const { config, url, admin } = await writeConfig(cwd, sinks, {
    webhooks: Object.fromEntries(webhooks.map((name) => [name, webhook(name)])),
  })
  const ask = (path: string) => fetch(`${admin}${path}`)
  const isReady = () =>
    ask("/readyz").then(
      ({ ok }) => ok,
      () => false,
    )
  const ready = async () => {
    while (!(await isReady())) await Bun.sleep(10)
  }
  const words = [...command(), "run", "-c", config]
  return { words, ask, ready, url: (name: string) => `${new URL(url).origin}/${name}` }
}

const env = { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "", RELAY_DRAIN_REFUSE: "0 seconds" }

/** Starts the relay with the descriptors as its stdout and stderr. */
const start = async (stdout: number | "ignore", stderr: number, sinks: object, webhooks = ["main"]) => {
  const { words, ready, ...relay } = await configure(sinks, webhooks)
  const child = Bun.spawn(words, { cwd, env, stdin: "ignore", stdout, stderr })
  cleanups.push(() => child.kill("SIGKILL"))
  await ready()
  return { child, ...relay }
}

const sent = (url: string, index: number): Promise<number> => {
  const object = { id: "obj_1", note: "x".repeat(2_000) }
  return deliver(url, envelope(`evt_${index}`, { type: "client.created", object }, { created_at: "" }))
}

const refused = async (url: string): Promise<ReadonlyArray<number>> => {
  const type = { "content-type": "application/json" }
  const some = [
    await fetch(url),
    await fetch(url, { method: "POST", body: "{}" }),
    await fetch(url, { method: "POST", headers: type, body: "{}" }),
  ]
  return some.map(({ status }) => status)
}

const droppedOf = async (ask: (path: string) => Promise<Response>): Promise<number> =>
  Number(/^relay_log_lines_dropped_total (\d+)$/m.exec(await (await ask("/metrics")).text())?.[1])

describe("a relay whose log nobody reads", () => {
  const audit = () => ({ audit: { type: "file", path: `audit-${pipes}.ndjson` } })

  test("answers deliveries, refusals and probes, and counts the lines that it drops in the log", async () => {
    const { writing, read, isBlocking } = pipe()
    const { child, ask, url } = await start("ignore", writing, audit(), names)
    for (const [index, name] of names.entries()) {
      expect(await refused(url(name))).toEqual([405, 415, 401])
      if (index % 20 === 0) expect(await sent(url(name), index)).toBe(202)
    }
    expect((await ask("/readyz")).status).toBe(200)
    const dropped = await droppedOf(ask)
    expect(dropped).toBeGreaterThan(0)

    const log = await read((text) => text.includes("missing here"))
    const lines = log.trimEnd().split("\n")
    const last = JSON.parse(lines.at(-1) ?? "")
    expect(lines.map((line) => JSON.parse(line).message)).toContain("started")
    expect(last).toMatchObject({ level: "WARN", message: expect.stringMatching(/^\d+ lines of the log are missing/) })
    expect(last.dropped).toBe(await droppedOf(ask))
    child.kill("SIGTERM")
    await read((text) => text.includes("drained"))
    expect(await child.exited).toBe(0)
    expect(isBlocking()).toBe(true)
  }, 60_000)

  test("stops on SIGTERM", async () => {
    const { writing } = pipe()
    const { child, url } = await start("ignore", writing, audit(), names)
    for (const name of names) await refused(url(name))
    child.kill("SIGTERM")
    expect(await child.exited).toBe(0)
  }, 60_000)
})

test("a relay whose log's reader has ended answers and delivers, counts the lines that it drops, and stops", async () => {
  const path = join(cwd, "ended")
  spawnSync("mkfifo", [path])
  const reading = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const writing = openSync(path, constants.O_WRONLY)
  const { child, ask, url } = await start("ignore", writing, { audit: { type: "file", path: "ended.ndjson" } })
  for (const descriptor of [reading, writing]) closeSync(descriptor)
  expect(await refused(url("main"))).toEqual([405, 415, 401])
  expect(await sent(url("main"), 0)).toBe(202)
  expect(await droppedOf(ask)).toBeGreaterThan(0)
  child.kill("SIGTERM")
  expect(await child.exited).toBe(0)
}, 60_000)

describe("a relay whose stdout nobody reads", () => {
  test("delivers to other sinks, and to the console all that it has once it is read again", async () => {
    const [out, err] = [pipe(), pipe()]
    const file = join(cwd, "others.ndjson")
    const screen = { type: "console", format: "raw", delivery: { timeout: "100 millis" } }
    const sinks = { screen, audit: { type: "file", path: file } }
    const { child, ask, url } = await start(out.writing, err.writing, sinks)
    for (let index = 0; index < 200; index++) expect(await sent(url("main"), index)).toBe(202)
    const ids = (text: string) => text.split("\n").flatMap((line) => /^\{"id":"(evt_\d+)"/.exec(line)?.[1] ?? [])
    const all = Array.from({ length: 200 }, (_, index) => `evt_${index}`)
    while (readFileSync(file, "utf8").split("\n").length <= 200) await Bun.sleep(10)
    expect((await ask("/readyz")).status).toBe(200)
    // A repeated attempt would print its event twice.
    const isWaiting = async () =>
      (await (await ask("/metrics")).text()).includes('relay_lane_state{sink="screen",state="waiting"} 1\n')
    while (!(await isWaiting())) await Bun.sleep(20)
    expect(ids(await out.read((text) => text.split("\n").length > 200))).toEqual(all)
    child.kill("SIGTERM")
    expect(await child.exited).toBe(0)
    expect([out.isBlocking(), err.isBlocking()]).toEqual([true, true])
  }, 60_000)
})

const hasPython = Bun.which("python3") !== null
describe.skipIf(!hasPython)("a relay whose terminal has stopped", () => {
  test("answers, delivers to other sinks, shows all events once the terminal continues, and stops", async () => {
    const file = join(cwd, "beside.ndjson")
    const sinks = { screen: { type: "console" }, audit: { type: "file", path: file } }
    const { words, ask, ready, url } = await configure(sinks, names)
    const child = Bun.spawn(["python3", "-c", terminal, ...words], { cwd, env, stdin: "pipe", stdout: "pipe" })
    await ready()
    for (const [index, name] of names.entries()) {
      expect(await refused(url(name))).toEqual([405, 415, 401])
      expect(await sent(url(name), index)).toBe(202)
    }
    while (!existsSync(file) || readFileSync(file, "utf8").split("\n").length <= names.length) await Bun.sleep(10)
    expect((await ask("/readyz")).status).toBe(200)
    child.stdin.write("\n")
    child.stdin.flush()
    let shown = ""
    let isStopping = false
    const ids = () => new Set(shown.match(/evt_\d+/g))
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      shown += chunk
      if (isStopping || ids().size < names.length) continue
      isStopping = true
      process.kill(Number.parseInt(shown, 10), "SIGTERM")
    }
    expect(shown).toEndWith("exit 0\n")
  }, 60_000)
})
