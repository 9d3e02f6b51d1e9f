/** Every link in the docs leads to a file, and every anchor to a heading. */
import { describe, expect, test } from "bun:test"
import { readdirSync, statSync } from "node:fs"
import { extname, join } from "node:path"
import { pagesBelow, readPage } from "../lib/docs.ts"
import { deadLinks, deadNames, namesOf, reachedFrom } from "../lib/links.ts"
import { root } from "../lib/programs.ts"

const pages = [...readdirSync(root).filter((name) => name.endsWith(".md")), ...["config", "docs"].flatMap(pagesBelow)]

const filesBelow = (path: string): ReadonlyArray<string> =>
  statSync(join(root, path)).isFile()
    ? [path]
    : readdirSync(join(root, path), { recursive: true, encoding: "utf8" })
        .map((name) => join(path, name))
        .filter((name) => statSync(join(root, name)).isFile())

const files = (path: string): string | undefined =>
  statSync(join(root, path), { throwIfNoEntry: false })?.isFile() ? readPage(path) : undefined

describe("the docs", () => {
  for (const page of pages) {
    test(`have no dead link in ${page}`, () => {
      expect(deadLinks(page, files)).toEqual([])
    })
  }

  test("are at the places that messages, configs, alert rules, scripts and pages name", () => {
    const top = readdirSync(root).filter((name) => /\.(md|json)$/.test(name))
    const sources = [...top, ...["src", "config", "docs", "test", ".ci"].flatMap(filesBelow)]
      // The parts of the pages on sinks; their links are checked in the pages.
      .filter((name) => !/^src\/.*\.md$/.test(name) && ![".png", ".gz"].includes(extname(name)))
    const naming = sources.filter((source) => namesOf(readPage(source)).length > 0)
    const kinds = [".ci/run", "relay.config.json", "config/monitoring/alerts.rules.yml", "config/deploy/Containerfile"]
    expect(naming).toEqual(
      expect.arrayContaining([...kinds, "src/journal/postgres/connection/DatabaseError.ts", "ARCHITECTURE.md"]),
    )
    expect(naming.flatMap((source) => deadNames(source, files).map((name) => `${source}: ${name}`))).toEqual([])
  })

  test("are all reached from the README", () => {
    const reached = reachedFrom("README.md", files)
    expect(pages.filter((page) => !reached.has(page))).toEqual([])
  })

  test("have a README of 900 words at most", () => {
    expect(readPage("README.md").split(/\s+/).length).toBeLessThanOrEqual(900)
  })
})
