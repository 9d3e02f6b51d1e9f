/** Trust in a config that a command finds by itself: its owner, and others who may change it. */
import { describe, expect, test } from "bun:test"
import { chmodSync, lchownSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import process from "node:process"
import { distrust, isPrivate } from "../../src/runtime/Files.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { relay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const stranger = 65534
const isRoot = process.geteuid?.() === 0

/** A directory with a config that this user owns and nobody else may change. */
const own = () => {
  const directory = temporaryDirectory("trust-")
  const file = join(directory, "relay.config.json")
  writeFileSync(file, "{}")
  chmodSync(file, 0o644)
  chmodSync(directory, 0o755)
  return { directory, file }
}

/** Makes such a directory with a link instead of the config. */
const linked = (target: string) => {
  const { directory, file } = own()
  rmSync(file)
  symlinkSync(target, file)
  return { directory, file }
}

describe("a file of the user that runs the command", () => {
  test("is trusted if nobody else can write or replace it, and so is an absent file", () => {
    const { directory, file } = own()
    expect(distrust(file)).toBeUndefined()
    expect(distrust(join(directory, "absent"))).toBeUndefined()
    expect(distrust(linked(file).file)).toBeUndefined()
    expect(distrust(linked("nowhere").file)).toBeUndefined()
  })

  test("is not trusted if every user can write to it or replace it", () => {
    const { directory, file } = own()
    chmodSync(file, 0o666)
    expect(distrust(file)).toBe(`every user (the mode is 0666) can write to ${file}`)
    expect(distrust(linked(file).file)).toContain(`can write to ${file}`)
    chmodSync(file, 0o644)
    chmodSync(directory, 0o777)
    expect(distrust(file)).toBe(`every user (the mode is 0777) can replace it in ${directory}`)
  })

  test("is trusted in a directory that all may write, if that has the sticky bit", () => {
    const { directory, file } = own()
    chmodSync(directory, 0o1777)
    expect(distrust(file)).toBeUndefined()
  })

  test("is not trusted as a link's target if a directory above it can be replaced", () => {
    const { directory } = own()
    const deep = join(directory, "one", "two")
    mkdirSync(deep, { recursive: true })
    writeFileSync(join(deep, "relay.config.json"), "{}")
    const { file } = linked(join(deep, "relay.config.json"))
    chmodSync(directory, 0o777)
    expect(distrust(file)).toBe(`every user (the mode is 0777) can replace it in ${directory}`)
    expect(distrust(join(deep, "relay.config.json"))).toBeUndefined()
  })

  test("may be writable by a group that has only that user", () => {
    const passwd = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/:/bin/sh\nbob:x:1001:1001::/:/bin/sh\n"
    const of = (group: string) => isPrivate(1000, 1000, { passwd, group })
    expect(of("ada:x:1000:\n")).toBe(true)
    expect(of("ada:x:1000:ada,root\n")).toBe(true)
    expect(of("ada:x:1000:ada,bob\n")).toBe(false)
    expect(of("root:x:0:\n")).toBe(false)
    const same = { passwd: `${passwd}eve:x:1002:1000::/:/bin/sh\n`, group: "ada:x:1000:\n" }
    expect(isPrivate(1000, 1000, same)).toBe(false)
  })
})

suiteUnless(isRoot ? undefined : "only root may give a file to another user", "a file of another user", () => {
  test("is not trusted, nor is its directory, nor a link", () => {
    const { directory, file } = own()
    lchownSync(file, stranger, stranger)
    expect(distrust(file)).toBe(`${file} belongs to the user nobody`)
    expect(distrust(linked(file).file)).toBe(`${file} belongs to the user nobody`)
    lchownSync(file, 0, 0)
    lchownSync(directory, stranger, stranger)
    expect(distrust(file)).toBe(`${directory} belongs to the user nobody, who can replace it there`)
    const link = linked(own().file)
    lchownSync(link.file, stranger, stranger)
    expect(distrust(link.file)).toBe(`${link.file} belongs to the user nobody`)
  })

  test("is not trusted if another group can write to it", () => {
    const { file } = own()
    lchownSync(file, 0, 1)
    chmodSync(file, 0o664)
    expect(distrust(file)).toBe(`the group daemon (the mode is 0664) can write to ${file}`)
    lchownSync(file, 0, 0)
    expect(distrust(file)).toBeUndefined()
  })

  test("gets no token from a config there: each command names the file's owner, and how to use it anyway", async () => {
    const asked: Array<string> = []
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: ({ headers }) => {
        asked.push(String(headers.get("authorization")))
        return new Response(null, { status: 500 })
      },
    })
    const { directory, file } = own()
    const secret = join(own().directory, "token")
    writeFileSync(secret, "a-token-that-root-alone-may-read")
    const admin = { listen: `127.0.0.1:${server.port}`, token: `file:${secret}` }
    writeFileSync(file, JSON.stringify({ admin }))
    lchownSync(file, stranger, stranger)
    const refused = new RegExp(
      `relay.config.json: error: it is not used, because another user may have written it: \\S+ belongs to the user nobody\\s+hint: if you trust it, name it: \`-c ${basename(file)}\``,
    )
    const asking = ["status", "status --watch", "reload"]
    for (const command of [...asking, "validate", "doctor", "run", "trigger client.created", "journal check"]) {
      const { code, stdout, stderr } = await relay(command.split(" "), { cwd: directory })
      expect([command, code, stdout, stderr]).toEqual([command, 78, "", expect.stringMatching(refused)])
    }
    const words = await relay(["__complete", "sinks"], { cwd: directory })
    expect([words.stdout.trim(), asked]).toEqual(["", []])
    await relay(["status", "-c", basename(file)], { cwd: directory })
    expect(asked).toContain("Bearer a-token-that-root-alone-may-read")
    await server.stop(true)
  })
})
