/** The files that a package installs, checked without making a package. */
import { expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { embedded } from "../../src/config/load/ConfigText.ts"
import { readPage } from "../lib/docs.ts"
import { deadLinks, deadNames, linksOf, reachedFrom } from "../lib/links.ts"
import { root } from "../lib/programs.ts"
import { filesOf } from "./LinuxFiles.ts"

const help = { manual: "", completions: { bash: "", zsh: "", fish: "" } }
const files = filesOf(root, help, "/usr/share/zsh/vendor-completions")
const contents = new Map(files.map(({ path, content }) => [path, Buffer.from(content).toString("utf8")]))
const textOf = (path: string): string => contents.get(path) ?? ""
const pages = [...contents.keys()].filter((path) => path.endsWith(".md"))

test("the installed config names only files that are installed", () => {
  const named = textOf("/etc/relay/relay.config.json").match(/\.?\/usr\/share\/[\w./-]*\w/g) ?? []
  expect(named.toSorted()).toEqual([
    "/usr/share/doc/relay/docs/reference/README.md",
    "/usr/share/relay/relay.schema.json",
  ])
  expect(files.map(({ path }) => path)).toEqual(expect.arrayContaining(named))
})

test("the default config names the reference at its place, in the source and in a package", () => {
  const named = embedded.match(/[\w./-]*reference\/[\w./-]*\w/g) ?? []
  expect(named).toEqual(["docs/reference/README.md", "/usr/share/doc/relay/docs/reference/README.md"])
  expect(existsSync(join(root, named[0] ?? ""))).toBe(true)
  expect(contents.has(named[1] ?? "")).toBe(true)
})

test("every key and every runbook has its page", () => {
  expect(textOf("/usr/share/doc/relay/docs/reference/sinks/kafka.md")).toStartWith("# ")
  expect(textOf("/usr/share/doc/relay/docs/operations/runbooks.md")).toContain("sink-waiting")
})

test("no link of an installed page is dead, and all pages are reached from the first", () => {
  const read = (path: string) => contents.get(path)
  expect(pages.flatMap((page) => deadLinks(page, read).map((link) => `${page}: ${link}`))).toEqual([])
  const reached = reachedFrom("/usr/share/doc/relay/docs/README.md", read)
  expect(pages.filter((page) => !reached.has(page))).toEqual([])
})

test("every page that an installed config or alert rule names is installed", () => {
  const read = (path: string) => contents.get(path)
  const others = [...contents.keys()].filter((path) => !path.endsWith(".md"))
  const dead = others.flatMap((path) => deadNames(path, read, "/usr/share/doc/relay").map((name) => `${path}: ${name}`))
  expect(dead).toEqual([])
})

test("an installed page has every link of its source but one to a test, which is not installed", () => {
  const sourceOf = (page: string) => page.replace("/usr/share/doc/relay/", "")
  const dropped = pages.filter((page) => {
    return linksOf(readPage(sourceOf(page))).length !== linksOf(textOf(page)).length
  })
  expect(dropped.map(sourceOf)).toEqual(["SECURITY.md"])
  expect(textOf("/usr/share/doc/relay/SECURITY.md")).toContain(", and a test searches all output for them.")
})
