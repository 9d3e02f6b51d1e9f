import { expect, test } from "bun:test"
import { join } from "node:path"
import { localUser, nameIn } from "../../src/runtime/Files.ts"
import { denoBinary, root } from "../lib/programs.ts"

const module = join(root, "src/runtime/Files.ts")

/** The user as another process sees it. */
const seen = (command: ReadonlyArray<string>, env: Readonly<Record<string, string>>): string =>
  Bun.spawnSync([...command], { env })
    .stdout.toString()
    .trim()

test("the user is the system's, whatever the environment says", () => {
  const known = seen(["/usr/bin/id", "-un"], {})
  const script = `console.log((await import(${JSON.stringify(module)})).localUser())`
  for (const env of [{}, { USER: "mallory", LOGNAME: "mallory", USERNAME: "mallory" }]) {
    expect(seen([process.execPath, "-e", script], env)).toBe(known)
    expect(seen([denoBinary(), "eval", script], env)).toBe(known)
  }
  expect(localUser()).toBe(known)
})

test("a number gets the name in the text", () => {
  const passwd = "root:x:0:0:root:/root:/bin/bash\n# a comment\n\nrelay:x:999:999::/var/lib/relay:/usr/sbin/nologin\n"
  expect([0, 999, 99, 1].map((uid) => nameIn(passwd, uid))).toEqual(["root", "relay", undefined, undefined])
})
