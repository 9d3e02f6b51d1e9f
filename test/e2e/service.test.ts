/**
 * The relay under a service manager: its messages to a real notify socket, and the unit. RELAY_UNDER selects the
 * runtime, or the binary. Python reads the other end of the socket, because neither runtime can. Without Python the
 * test is skipped with that reason.
 */
import { afterEach, describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { writeConfig } from "../lib/kit.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const unitFile = resolve(import.meta.dir, "../../config/deploy/relay.service")
const cwd = temporaryDirectory("service-")

const runs = (command: string, ...args: ReadonlyArray<string>): boolean => {
  const found = Bun.which(command) !== null && Bun.spawnSync([command, ...args]).exitCode === 0
  if (!found) console.warn(`SKIPPED: the tests that need ${command}, which is not here`)
  return found
}
const hasPython = runs("python3", "--version")
const hasAnalyze = runs("systemd-analyze", "--version")

const { config } = await writeConfig(cwd)

const listener = `
import json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1].replace("@", "\\0", 1) if sys.argv[1].startswith("@") else sys.argv[1])
if len(sys.argv) > 2:
    c = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    c.setblocking(False)
    try:
        while True: c.sendto(b"WATCHDOG=1 of the test", sys.argv[1])
    except BlockingIOError: pass
print(json.dumps("bound"), flush=True)
if len(sys.argv) > 2: sys.stdin.readline()
while True: print(json.dumps(s.recv(65536).decode()), flush=True)
`

const children: Array<{ readonly kill: () => void }> = []
afterEach(() => {
  for (const child of children.splice(0)) child.kill()
})

/** A notify socket that returns its datagrams one by one. If it is full, it isn't read before `goOn`. */
const manager = async (path: string, ...full: ReadonlyArray<"full">) => {
  const words = ["python3", "-c", listener, path, ...full]
  const child = Bun.spawn(words, { stdin: "pipe", stdout: "pipe", stderr: "inherit" })
  children.push(child)
  const lines = (async function* () {
    let rest = ""
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      const parts = (rest + chunk).split("\n")
      rest = parts.pop() ?? ""
      for (const part of parts) yield JSON.parse(part) as string
    }
  })()
  const message = async (): Promise<string> => (await lines.next()).value ?? "the socket was closed"
  expect(await message()).toBe("bound")
  const goOn = () => {
    child.stdin.write("\n")
    child.stdin.flush()
  }
  return Object.assign(message, { goOn })
}

/** Returns the next message that isn't a heartbeat. Heartbeats may arrive between any two others. */
const pastBeats = async (message: () => Promise<string>): Promise<string> => {
  let said = await message()
  while (said.startsWith("WATCHDOG=1")) said = await message()
  return said
}

describe.skipIf(!hasPython)("a service manager hears", () => {
  for (const [kind, path] of [
    ["a path", join(cwd, "notify.sock")],
    ["an abstract name", `@relay-test-${process.pid}`],
  ] as const) {
    test(`over ${kind} that the relay is ready, that it lives, how it is, and that it stops`, async () => {
      const message = await manager(path)
      const env = { NOTIFY_SOCKET: path, WATCHDOG_USEC: "200000" }
      const running = await startRelay(config, { cwd, env })
      expect(await message()).toBe("READY=1\nSTATUS=journal ok; 1 sink")
      for (let beats = 0; beats < 3; beats++) expect(await message()).toBe("WATCHDOG=1\nSTATUS=journal ok; 1 sink")
      expect(await running.kill("SIGTERM")).toBe(0)
      expect(await pastBeats(message)).toMatch(/^STOPPING=1\nSTATUS=draining, until \S+Z at the latest$/)
    })
  }

  test("once it is read again, that the relay is ready; meanwhile the relay answers and delivers", async () => {
    const path = join(cwd, "full.sock")
    const message = await manager(path, "full")
    const running = await startRelay(config, { cwd, env: { NOTIFY_SOCKET: path, WATCHDOG_USEC: "20000" } })
    expect((await relay(["trigger", "client.created", "-c", config], { cwd })).stdout).toMatch(/^202 /)
    message.goOn()
    expect(await pastBeats(message)).toStartWith("READY=1")
    expect(await running.kill("SIGTERM")).toBe(0)
    expect(await pastBeats(message)).toStartWith("STOPPING=1")
  })

  test("that a reload begins, by its own clock, and later that it has ended", async () => {
    const path = join(cwd, "reload.sock")
    const message = await manager(path)
    const running = await startRelay(config, { cwd, env: { NOTIFY_SOCKET: path } })
    expect(await message()).toStartWith("READY=1")
    running.signal("SIGHUP")
    const said = await pastBeats(message)
    const now = Bun.spawnSync(["python3", "-c", "import time; print(time.monotonic_ns() // 1000)"]).stdout.toString()
    const [, micros] = /^RELOADING=1\nMONOTONIC_USEC=(\d+)$/.exec(said) ?? []
    expect(Number(now) - Number(micros)).toBeWithin(0, 60_000_000)
    expect(await pastBeats(message)).toBe("READY=1")
    await running.kill("SIGTERM")
  })

  suiteUnless(process.env.RELAY_UNDER === "deno" ? "a restart needs Bun" : undefined, "after a restart", () => {
    test("which process is the relay, and that this one is ready and lives", async () => {
      const path = join(cwd, "restart.sock")
      const message = await manager(path)
      const env = { NOTIFY_SOCKET: path, WATCHDOG_USEC: "1000000" }
      const first = await startRelay(config, { cwd, env })
      expect(await message()).toStartWith("READY=1")
      const restarted = relay(["restart", "-c", config, "--json"], { cwd })
      const said = [await pastBeats(message), await pastBeats(message)].sort()
      const [, pid] = /^MAINPID=(\d+)$/.exec(said[0] ?? "") ?? []
      expect(said[1]).toStartWith("READY=1")
      expect(await message()).toStartWith("WATCHDOG=1")
      expect(JSON.parse((await restarted).stdout)).toMatchObject({ pid: Number(pid) })
      await first.prints("took over")
      process.kill(Number(pid), "SIGTERM")
      expect(await first.exited).toBe(0)
      expect(await pastBeats(message)).toStartWith("STOPPING=1")
    })
  })

  test("nothing of a watchdog that is meant for another process", async () => {
    const path = join(cwd, "other.sock")
    const message = await manager(path)
    const env = { NOTIFY_SOCKET: path, WATCHDOG_USEC: "1000", WATCHDOG_PID: "1" }
    const running = await startRelay(config, { cwd, env })
    expect(await message()).toStartWith("READY=1")
    // The first heartbeat is sent immediately, and the next one only after ten seconds.
    expect(await message()).toStartWith("WATCHDOG=1")
    await running.kill("SIGTERM")
    expect(await pastBeats(message)).toStartWith("STOPPING=1")
  })
})

describe("a relay that can't be heard", () => {
  test("runs normally", async () => {
    for (const NOTIFY_SOCKET of ["/nonexistent/notify.sock", "vsock:2:1234"]) {
      const running = await startRelay(config, { cwd, env: { NOTIFY_SOCKET, WATCHDOG_USEC: "100000" } })
      expect(await running.kill("SIGTERM")).toBe(0)
    }
  })
})

describe("the log of a service", () => {
  test("is JSON lines without a terminal, from the first to the last", async () => {
    const running = await startRelay(config, { cwd, args: [] })
    await running.kill("SIGTERM")
    const lines = running
      .stderr()
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line))
    expect(lines.map(({ level, message }) => `${level} ${message}`)).toEqual([
      "INFO started",
      expect.stringMatching(/^INFO SIGTERM: draining, until \S+Z at the latest; a second signal exits immediately$/),
      "INFO drained, everything accepted is on disk",
    ])
  })
})

describe("the unit", () => {
  const unit = readFileSync(unitFile, "utf8")

  test("is the output of `relay init --systemd`", async () => {
    expect((await relay(["init", "--systemd"], { cwd })).stdout).toBe(unit)
  })

  test("reports when the relay is ready and alive, reloads it, and hides secrets and BUN_* from it", () => {
    for (const line of [
      "Type=notify",
      "WatchdogSec=30",
      "ExecReload=/bin/kill -HUP $MAINPID",
      "ExecReload=/usr/local/bin/relay reload -c /etc/relay/relay.config.json",
      "LoadCredential=scheduling:/etc/relay/secrets/scheduling",
      "Environment=UV_THREADPOOL_SIZE=64",
    ]) {
      expect(unit).toContain(`\n${line}\n`)
    }
    const unset = /^UnsetEnvironment=(.*)$/m.exec(unit)?.[1]?.split(" ")
    expect(unset).toEqual(expect.arrayContaining(["BUN_OPTIONS", "BUN_BE_BUN", "BUN_INSPECT"]))
  })

  test("starts the relay again however often it fails, as when its address is not there yet", () => {
    for (const line of ["After=network-online.target", "StartLimitIntervalSec=0", "Restart=always", "RestartSec=2"]) {
      expect(unit).toContain(`\n${line}\n`)
    }
    expect(/^RestartPreventExitStatus=(.*)$/m.exec(unit)?.[1]?.split(" ")).not.toContain("74")
  })

  test.skipIf(!hasAnalyze)("leaves an exposure of 1.5 or less by systemd's own account", () => {
    const { stdout } = Bun.spawnSync(["systemd-analyze", "security", "--offline=true", "--no-pager", unitFile])
    const exposure = /Overall exposure level for relay\.service: ([0-9.]+)/.exec(stdout.toString())?.[1]
    expect(Number(exposure)).toBeLessThanOrEqual(1.5)
  })

  test.skipIf(!hasAnalyze)("holds nothing that systemd does not know", () => {
    const { stderr } = Bun.spawnSync(["systemd-analyze", "verify", unitFile])
    const troubles = stderr
      .toString()
      .split("\n")
      .filter((line) => line !== "" && !line.includes("/usr/local/bin/relay"))
    expect(troubles).toEqual([])
  })
})
