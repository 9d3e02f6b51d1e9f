/** The docs lead somewhere: every link names a file, and every anchor a heading. */
import { describe, expect, test } from "bun:test"
import { readdirSync, statSync } from "node:fs"
import { extname, join } from "node:path"
import { pagesBelow, readPage } from "./lib/docs.ts"
import { deadLinks, deadTargets, reachedFrom } from "./lib/links.ts"
import { root } from "./lib/programs.ts"

const pages = [...readdirSync(root).filter((name) => name.endsWith(".md")), ...["config", "docs"].flatMap(pagesBelow)]

const filesBelow = (path: string): ReadonlyArray<string> =>
  statSync(join(root, path)).isFile()
    ? [path]
    : readdirSync(join(root, path), { recursive: true, encoding: "utf8" })
        .map((name) => join(path, name))
        .filter((name) => [".ts", ".tsx", ".json", ".yml", ".yaml", ".service", ""].includes(extname(name)))
        .filter((name) => statSync(join(root, name)).isFile())

const files = (path: string): string | undefined =>
  statSync(join(root, path), { throwIfNoEntry: false })?.isFile() ? readPage(path) : undefined

describe("the docs", () => {
  for (const page of pages) {
    test(`have no dead link in ${page}`, () => {
      expect(deadLinks(page, files)).toEqual([])
    })
  }

  test("are where sources, configs, alert rules and scripts say that they are", () => {
    const sources = ["src", "config", "test", ".ci", "relay.config.json"].flatMap(filesBelow)
    const named = sources.flatMap((source) =>
      [...readPage(source).matchAll(/(?:\.\.\/)*\bdocs\/[\w./-]+\.md(?:#[\w-]*\w(?![\w{-]))?/g)].map(([name]) => {
        const link = name.startsWith("..") ? join(source, "..", name) : name
        return deadTargets([link], "", files).map(() => `${source}: ${name}`)
      }),
    )
    expect(named.length).toBeGreaterThan(60)
    expect(named.flat()).toEqual([])
  })

  test("are all reached from the README", () => {
    const reached = reachedFrom("README.md", files)
    expect(pages.filter((page) => !reached.has(page))).toEqual([])
  })

  test("have a README of 900 words at most", () => {
    expect(readPage("README.md").split(/\s+/).length).toBeLessThanOrEqual(900)
  })
})
