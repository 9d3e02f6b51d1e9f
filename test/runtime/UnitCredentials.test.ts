import { expect, test } from "bun:test"
import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { unitCredentials } from "../../src/runtime/Files.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

/** The credentials that systemd's units define. Each directory of units is written below a temporary one. */
const of = (files: Readonly<Record<string, string>>) => {
  const directory = temporaryDirectory("units-")
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true })
    writeFileSync(join(directory, name), text)
  }
  return unitCredentials(
    "relay.service",
    ["etc", "usr"].map((root) => join(directory, root)),
  )
}

const packaged = "[Service]\nLoadCredential=a:/etc/relay/secrets/a\n#LoadCredential=b:/etc/relay/secrets/b\n"

test("a unit's credentials come from its file and its drop-ins, and the administrator's drop-ins win", () => {
  expect(of({})).toBeUndefined()
  expect(of({ "usr/relay.service": packaged })).toEqual(new Map([["a", "/etc/relay/secrets/a"]]))
  const dropIns = {
    "etc/relay.service.d/more.conf": "[Service]\nLoadCredential = c:/srv/c \n",
    "usr/relay.service.d/more.conf": "[Service]\nLoadCredential=hidden:/srv/hidden\n",
  }
  expect(of({ "usr/relay.service": packaged, ...dropIns })).toEqual(
    new Map([
      ["a", "/etc/relay/secrets/a"],
      ["c", "/srv/c"],
    ]),
  )
  const other = "[Service]\nLoadCredential=\nLoadCredential=d:/srv/d\n"
  expect(of({ "usr/relay.service": packaged, "etc/relay.service.d/z.conf": other })).toEqual(new Map([["d", "/srv/d"]]))
  expect(of({ "etc/relay.service": other, "usr/relay.service": packaged })).toEqual(new Map([["d", "/srv/d"]]))
})

test("a credential that only systemd can read leaves all of them unknown", () => {
  for (const line of [
    "SetCredential=a:text",
    "LoadCredentialEncrypted=a:/srv/a",
    "LoadCredential=a",
    "ImportCredential=a*",
  ]) {
    expect(of({ "usr/relay.service": `${packaged}${line}\n` })).toBeUndefined()
  }
})
