/**
 * The commands that don't end by themselves, `tap` and `status --watch`, as processes. Python opens the terminal,
 * because neither runtime can. Without Python that test is skipped with that reason.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { audit, writeConfig } from "../lib/kit.ts"
import { command, type Relay, relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const cwd = temporaryDirectory("live-")
const config = "relay.config.json"
let running: Relay
beforeAll(async () => {
  await writeConfig(cwd, audit, {}, config)
  running = await startRelay(config, { cwd })
})
afterAll(() => running.kill())

/** Runs a command that doesn't end by itself. Returns its output and its end. */
const staying = (words: ReadonlyArray<string>) => {
  const child = Bun.spawn(words as Array<string>, {
    cwd,
    env: { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "", TERM: "xterm" },
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  })
  const out = { text: "" }
  const err = { text: "" }
  const collect = async (stream: ReadableStream<Uint8Array<ArrayBuffer>>, into: { text: string }) => {
    for await (const chunk of stream.pipeThrough(new TextDecoderStream())) into.text += chunk
  }
  const collected = Promise.all([collect(child.stdout, out), collect(child.stderr, err)])
  return {
    prints: async (pattern: RegExp) => {
      while (!pattern.test(out.text + err.text)) await Bun.sleep(10)
    },
    type: (keys: string) => {
      child.stdin.write(keys)
      void child.stdin.flush()
    },
    interrupt: () => child.kill("SIGINT"),
    ended: collected.then(async () => ({ code: await child.exited, stdout: out.text })),
  }
}

const trigger = (type: string) => relay(["trigger", type, "-c", config], { cwd })

describe("a command that stays", () => {
  test("tap says when it listens, and shows the events from then on", async () => {
    const tap = staying([...command(), "tap", "--type", "client.*", "-c", config])
    await tap.prints(/accepted events/)
    await trigger("appointment.created")
    await trigger("client.created")
    await tap.prints(/client\.created/)
    tap.interrupt()
    const { code, stdout } = await tap.ended
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^\S+ {2}client\.created .* audit\n$/)])
  })

  test("tap prints only the reason if it is refused", async () => {
    const refused = await relay(["tap", "--sink", "nope", "-c", config], { cwd })
    expect(refused).toEqual({
      code: 1,
      stdout: "",
      stderr: "relay: there is no sink nope in the config; `relay status` shows them\n",
    })
  })

  test("tap shows events as they arrive, and ends with 0", async () => {
    const tap = staying([...command(), "tap", "--type", "client.*", "--json", "-c", config])
    // `tap` shows events that arrive after it connects. The test can't see that moment, so it sends until `tap` has
    // shown an event.
    const seen = tap.prints(/client\.created/)
    let isSeen = false
    void seen.then(() => {
      isSeen = true
    })
    while (!isSeen) {
      await trigger("appointment.created")
      await trigger("client.created")
    }
    tap.interrupt()
    const { code, stdout } = await tap.ended
    const shown = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line))
    expect(code).toBe(0)
    expect(new Set(shown.map(({ type, sinks }) => `${type} ${sinks}`))).toEqual(new Set(["client.created audit"]))
  })

  test("status --watch prints a line per change without a terminal", async () => {
    const status = staying([...command(), "status", "--watch", "-c", config])
    await status.prints(/audit running\n/)
    await trigger("appointment.created")
    await status.prints(/(.*\n){2}/)
    status.interrupt()
    const { code, stdout } = await status.ended
    expect(code).toBe(0)
    for (const line of stdout.trimEnd().split("\n")) {
      expect(line).toMatch(/^\d{4}-\S+Z {2}journal ok, \d+ (entry|entries); audit running/)
    }
  })

  const python = Bun.which("python3")
  if (python === null) console.warn("SKIPPED: the test that needs a terminal, for python3 is not here")
  test.skipIf(python === null)(
    "status --watch has a screen of its own on a terminal, and gives it back with the last state on it",
    async () => {
      const spawn = `import os, pty, sys\nos._exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))`
      const status = staying([python ?? "", "-c", spawn, ...command(), "status", "--watch", "-c", config])
      await status.prints(/Ctrl-C to stop/)
      status.type("\u0003")
      const { code, stdout } = await status.ended
      expect(code).toBe(0)
      const [before = "", after = ""] = stdout.split("\u001b[?1049l")
      expect(before).toStartWith("\u001b[?1049h\u001b[?25l")
      expect(before).toEndWith("\u001b[?7h\u001b[?25h")
      expect(after).toMatch(/audit +file +running/)
    },
    20_000,
  )
})
