import { describe, expect, test } from "bun:test"
import { commandOf } from "../../../src/cli/support/Program.ts"
import { quoted } from "../../../src/formats/Texts.ts"

const started = {
  isCompiled: false,
  runtime: "bun",
  runtimeVersion: "1.4.5",
  execPath: "/opt/bun/bin/bun",
  main: "/home/me/relay/src/main.ts",
  cwd: "/home/me/relay",
  env: { PATH: "/usr/bin:/opt/bun/bin" },
} as const

describe("the command that start-up prints can be pasted", () => {
  test("from source, with the path relative to the current directory", () => {
    expect(commandOf(started)).toBe("bun src/main.ts")
    expect(commandOf({ ...started, cwd: "/tmp" })).toBe("bun /home/me/relay/src/main.ts")
  })

  test("from source under npx, without bun on the PATH", () => {
    expect(commandOf({ ...started, env: { npm_command: "exec" } })).toBe("npx -y bun@1.4.5 src/main.ts")
  })

  test("from source under Deno", () => {
    expect(commandOf({ ...started, runtime: "deno" })).toBe("deno run -A src/main.ts")
  })

  test("as a binary: by its name if it is on the PATH, otherwise by its path", () => {
    const binary = { ...started, isCompiled: true, execPath: "/usr/bin/relay" }
    expect(commandOf(binary)).toBe("relay")
    expect(commandOf({ ...binary, execPath: "/home/me/relay/dist/relay" })).toBe("dist/relay")
    expect(commandOf({ ...binary, execPath: "/home/me/relay/relay" })).toBe("./relay")
    expect(commandOf({ ...binary, execPath: "/srv/relay" })).toBe("/srv/relay")
  })

  test("from the npm package, by its launcher", () => {
    const env = { ...started.env, RELAY_LAUNCHER: "/home/me/relay/node_modules/relay/bin/relay.cjs" }
    expect(commandOf({ ...started, env })).toBe("node_modules/relay/bin/relay.cjs")
    expect(commandOf({ ...started, env: { ...env, npm_command: "exec" } })).toBe("npx relay")
  })

  test("with a path that a shell would split", () => {
    expect(commandOf({ ...started, cwd: "/a b", main: "/a b/it's.ts" })).toBe("bun 'it'\\''s.ts'")
    expect(quoted("plain-path_1.json")).toBe("plain-path_1.json")
  })
})
