/** Completions, asked for as the shells do. */
import { describe, expect, test } from "bun:test"
import { chmodSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { eventTypes } from "../../../src/event/EventType.ts"
import { relayBinary } from "../../lib/programs.ts"
import { configsIn } from "../configs.ts"
import { cli, temporary } from "../harness.ts"

const directory = temporary()
const config = configsIn(directory)

const program = join(directory, "relay")
writeFileSync(program, `#!/bin/sh\nexec ${relayBinary()} "$@"\n`)
chmodSync(program, 0o755)

/** What bash offers after these words, the last of which is being typed. */
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

  test("offers nothing, and prints nothing, where the config can't be read", async () => {
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

  test("each shell's script asks", async () => {
    for (const [shell, call] of [
      ["zsh", ": _relay_values webhooks"],
      ["fish", "-a '(__relay_values webhooks)'"],
    ] as const) {
      const { stdout } = await cli(["--completions", shell])
      expect(stdout).toContain(call)
      expect(stdout).not.toMatch(/__relay_(types|sinks|lanes|webhooks)__/)
      expect(stdout).toContain("_relay_values")
    }
    expect((await cli(["--completions", "zsh"])).stdout).toStartWith("#compdef relay\n")
  })
})
