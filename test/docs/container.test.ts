/** The container file copies all that the build needs, and its image runs without root. */
import { describe, expect, test } from "bun:test"
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join, resolve } from "node:path"

const root = resolve(import.meta.dir, "../..")
const lines = readFileSync(join(root, "config/deploy/Containerfile"), "utf8")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"))
const instructions = lines.map((line) => line.split(" "))
const of = (name: string) => instructions.filter(([first]) => first === name).map(([, ...rest]) => rest)

describe("the container file", () => {
  test("builds with the Bun that the checks run on, by the lock", () => {
    const version = /bun_version=(\S+)/.exec(readFileSync(join(root, ".ci/run"), "utf8"))?.[1]
    expect(of("FROM")[0]).toEqual([`docker.io/oven/bun:${version}`, "AS", "build"])
    expect(lines.join("\n")).toContain('"install", "--frozen-lockfile"')
  })

  test("ends in an image without a shell, as a user by number that is not root", () => {
    expect(of("FROM").at(-1)).toEqual(["gcr.io/distroless/base-debian12:nonroot"])
    expect(of("USER")).toEqual([["65532:65532"]])
    // Without a shell only the list form runs.
    for (const name of ["RUN", "ENTRYPOINT", "CMD"]) {
      for (const words of of(name)) expect(Array.isArray(JSON.parse(words.join(" ")))).toBe(true)
    }
  })

  const hasParts = process.env.RELAY_PARTS === "1"
  if (!hasParts) console.warn("skipped: a build from what the container file copies: RELAY_PARTS=1 bun test makes it")
  test.skipIf(!hasParts)(
    "copies all that the build needs",
    () => {
      const directory = mkdtempSync(join(tmpdir(), "relay-container-"))
      try {
        for (const words of of("COPY").filter(([first]) => first?.startsWith("--") === false)) {
          const target = words.at(-1) ?? ""
          for (const source of words.slice(0, -1)) {
            const into = target.endsWith("/") ? join(directory, target, basename(source)) : join(directory, target)
            cpSync(join(root, source), into, { recursive: true })
          }
        }
        symlinkSync(join(root, "node_modules"), join(directory, "node_modules"))
        const built = Bun.spawnSync([process.execPath, "run", "build:native"], { cwd: directory, stderr: "pipe" })
        expect([built.exitCode, built.exitCode === 0 ? "" : built.stderr.toString()]).toEqual([0, ""])
        const env = { PATH: "" }
        const { stdout } = Bun.spawnSync([join(directory, "dist/relay"), "init", "--systemd"], { cwd: directory, env })
        expect(stdout.toString()).toBe(readFileSync(join(root, "config/deploy/relay.service"), "utf8"))
      } finally {
        rmSync(directory, { recursive: true })
      }
    },
    60_000,
  )
})
