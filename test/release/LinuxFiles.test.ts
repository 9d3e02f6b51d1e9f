/** What a package installs, without making one. */
import { expect, test } from "bun:test"
import { root } from "../lib/programs.ts"
import { filesOf } from "./LinuxFiles.ts"

const help = { manual: "", completions: { bash: "", zsh: "", fish: "" } }
const files = filesOf(root, help, "/usr/share/zsh/vendor-completions")
const textOf = (path: string): string =>
  Buffer.from(files.find((file) => file.path === path)?.content ?? "").toString("utf8")

test("the installed config names only files that are installed", () => {
  const named = textOf("/etc/relay/relay.config.json").match(/\.?\/usr\/share\/[\w./-]*\w/g) ?? []
  expect(named.toSorted()).toEqual(["/usr/share/doc/relay/reference/README.md", "/usr/share/relay/relay.schema.json"])
  expect(files.map(({ path }) => path)).toEqual(expect.arrayContaining(named))
})

test("every key and every runbook has its page", () => {
  expect(textOf("/usr/share/doc/relay/reference/sinks/kafka.md")).toStartWith("# ")
  expect(textOf("/usr/share/doc/relay/operations/runbooks.md")).toContain("sink-waiting")
})
