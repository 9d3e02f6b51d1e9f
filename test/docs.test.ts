/** The docs lead somewhere: every link names a file, and every anchor a heading. */
import { describe, expect, test } from "bun:test"
import { readdirSync, statSync } from "node:fs"
import { join } from "node:path"
import { pagesBelow, readPage } from "./lib/docs.ts"
import { deadLinks, reachedFrom } from "./lib/links.ts"
import { root } from "./lib/programs.ts"

const pages = [...readdirSync(root).filter((name) => name.endsWith(".md")), ...pagesBelow("config")]

const files = (path: string): string | undefined =>
  statSync(join(root, path), { throwIfNoEntry: false })?.isFile() ? readPage(path) : undefined

describe("the docs", () => {
  for (const page of pages) {
    test(`have no dead link in ${page}`, () => {
      expect(deadLinks(page, files)).toEqual([])
    })
  }

  test("are all reached from the README", () => {
    const reached = reachedFrom("README.md", files)
    expect(pages.filter((page) => !reached.has(page))).toEqual([])
  })

  test("have a README of 900 words at most", () => {
    expect(readPage("README.md").split(/\s+/).length).toBeLessThanOrEqual(900)
  })
})
