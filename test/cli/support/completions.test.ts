/** Completions, requested as shells do. */
import { describe, expect, test } from "bun:test"
import { chmodSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { eventTypes } from "../../../src/event/EventType.ts"
import { it } from "../../lib/effect.ts"
import { relayBinary } from "../../lib/programs.ts"
import { configsIn } from "../configs.ts"
import { cli, temporary } from "../harness.ts"
import { runningIn } from "../running.ts"

const directory = temporary()
const config = configsIn(directory)

const program = join(directory, "relay")
writeFileSync(program, `#!/bin/sh\nexec ${relayBinary()} "$@"\n`)
chmodSync(program, 0o755)

/** Returns bash's completions of these words. The last word is still being typed. */
const bashOffers = async (...words: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  const { stdout } = await cli(["--completions", "bash"])
  const script = join(directory, "completions.bash")
  writeFileSync(
    script,
    `${stdout}
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=\${#COMP_LINE}
_relay "$1" "\${!#}" "\${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "\${COMPREPLY[@]}"`,
  )
  const bash = Bun.spawnSync(["bash", "--norc", script, program, ...words], { cwd: directory })
  expect(bash.stderr.toString()).toBe("")
  return bash.stdout.toString().trim().split("\n")
}

describe.skipIf(Bun.which("bash") === null)("bash", () => {
  test("completes types, sinks, lanes and webhooks from the config that the line names", async () => {
    const file = config()
    expect(await bashOffers("-c", file, "lanes", "pause", "")).toEqual(["audit", "screen"])
    expect(await bashOffers("-c", file, "lanes", "move", "old", "sc")).toEqual(["screen"])
    // Sinks of the config can't be dropped, and no relay runs that could list other lanes.
    expect(await bashOffers("-c", file, "lanes", "drop", "")).toEqual([""])
    expect(await bashOffers("dlq", "list", `--config=${file}`, "--sink", "")).toEqual([
      "audit",
      "screen",
      "_quarantine",
    ])
    expect(await bashOffers("tap", "-c", file, "--webhook", "")).toEqual(["scheduling"])
    expect(await bashOffers("explain", "appointment.meeting.create_")).toEqual(
      eventTypes.filter((type) => type.startsWith("appointment.meeting.create_")),
    )
  }, 60_000)

  test("completes file names if a file is expected", async () => {
    for (const name of ["reliable.json", "reliable.db"]) writeFileSync(join(directory, name), "{}")
    const both = ["reliable.db", "reliable.json"]
    for (const words of [
      ["-c", "rel"],
      ["status", "--config", "rel"],
      ["journal", "import", "rel"],
      ["journal", "check", "rel"],
      ["journal", "copy", "--file", "rel"],
      ["trigger", "client.created", "--ca", "rel"],
    ]) {
      const offered = await bashOffers(...words)
      expect([words, offered.filter((one) => one !== "relay").toSorted()]).toEqual([words, both])
    }
  }, 60_000)

  test("completes the flags that every command takes", async () => {
    const everywhere = ["--config", "--as", "--json", "--help"]
    expect(await bashOffers("lanes", "drop", "--")).toEqual(everywhere)
    expect(await bashOffers("--")).toEqual(everywhere)
    expect(await bashOffers("validate", "--json", "--")).toEqual([
      "--offline",
      "--strict",
      "--config",
      "--as",
      "--help",
    ])
  }, 60_000)

  test("offers and prints nothing if the config can't be read", async () => {
    expect(await bashOffers("-c", join(directory, "missing.json"), "lanes", "pause", "")).toEqual([""])
  }, 60_000)
})

describe("asked for values", () => {
  const asked = (...args: ReadonlyArray<string>) => cli(["__complete", ...args])

  test("it needs no secret, and prints nothing of a config that is no JSON or not there", async () => {
    const secret = { scheduling: { path: "/", secrets: "${NOWHERE}" } }
    const found = await asked("webhooks", "-c", config({ webhooks: secret, sinks: { lake: { type: "no such type" } } }))
    expect(found).toEqual({ code: 0, stdout: "scheduling\n", stderr: "" })
    const broken = join(directory, "broken.json")
    writeFileSync(broken, "[")
    for (const file of [broken, join(directory, "missing.json"), directory]) {
      expect(await asked("sinks", "-c", file)).toEqual({ code: 0, stdout: "", stderr: "" })
    }
  })

  it.live("it completes orphaned lanes from the running relay, and none without a relay", function* () {
    const { file } = yield* runningIn(directory)()
    const found = yield* Effect.promise(() => asked("orphans", "-c", file))
    expect(found).toEqual({ code: 0, stdout: "old\n", stderr: "" })
    expect(yield* Effect.promise(() => asked("orphans", "-c", config()))).toEqual({ code: 0, stdout: "", stderr: "" })
  })

  test("each shell's script asks", async () => {
    for (const [shell, call] of [
      ["zsh", ": _relay_values webhooks"],
      ["fish", "-a '(__relay_values webhooks)'"],
    ] as const) {
      const { stdout } = await cli(["--completions", shell])
      expect(stdout).toContain(call)
      expect(stdout).not.toMatch(/__relay_(types|sinks|lanes|orphans|webhooks)__/)
      expect(stdout).toContain("_relay_values")
    }
    expect((await cli(["--completions", "zsh"])).stdout).toStartWith("#compdef relay\n")
  })
})
