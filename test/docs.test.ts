/** The docs lead somewhere: every link names a file, and every anchor a heading. */
import { describe, expect, test } from "bun:test"
import { existsSync, readdirSync } from "node:fs"
import { dirname, join } from "node:path"
import { pagesBelow, readPage } from "./lib/docs.ts"
import { root } from "./lib/programs.ts"

const pages = [...readdirSync(root).filter((name) => name.endsWith(".md")), ...pagesBelow("config")]

/** The anchors of a page's headings, as GitHub makes them. */
const anchorsOf = (path: string): ReadonlyArray<string> =>
  [...readPage(path).matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  )

describe("the docs", () => {
  for (const page of pages) {
    test(`have no dead link in ${page}`, () => {
      const links = [...readPage(page).matchAll(/\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g)].map(
        ([, link, image]) => link ?? image ?? "",
      )
      const dead = links.filter((link) => {
        if (/^https?:/.test(link)) return false
        const [file = "", anchor] = link.split("#")
        const target = file === "" ? page : join(dirname(page), file)
        if (!existsSync(join(root, target))) return true
        return anchor !== undefined && !anchorsOf(target).includes(anchor)
      })
      expect(dead).toEqual([])
    })
  }

  test("are all reached from the README", () => {
    const reached = new Set(["README.md"])
    for (const page of reached) {
      for (const [, link = ""] of readPage(page).matchAll(/\]\(([^)#\s]+\.md)/g)) {
        if (!/^https?:/.test(link)) reached.add(join(dirname(page), link))
      }
    }
    expect(pages.filter((page) => !reached.has(page))).toEqual([])
  })

  test("have a README of 900 words at most", () => {
    expect(readPage("README.md").split(/\s+/).length).toBeLessThanOrEqual(900)
  })
})
