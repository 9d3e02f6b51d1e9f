/** The links of Markdown pages, and links that lead nowhere. */
import { dirname, join } from "node:path"

/** Returns the text of the file at a path, or `undefined` if it doesn't exist. */
export type Files = (path: string) => string | undefined

/** Matches a page that a text names by a folder and its name, in a link or a sentence. Web addresses don't match. */
const named = /(?<![\w/.:-])[\w./-]*\/[\w.-]+\.md(?:#[\w-]*\w(?![\w{-]))?/g

const link = /\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g

export const linksOf = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(link)].map(([, link, image]) => link ?? image ?? "").filter((link) => !/^https?:/.test(link))

/** Where a link of a page leads. */
export const targetOf = (page: string, link: string): string => {
  const [file = ""] = link.split("#")
  return file === "" ? page : join(dirname(page), file)
}

/** The anchors of a page's headings, as GitHub makes them. */
const anchorsOf = (text: string): ReadonlyArray<string> =>
  [...text.replaceAll(/^```[\s\S]*?^```/gm, "").matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  )

/** The links of a page that name no file, or no heading of one. */
export const deadLinks = (page: string, files: Files): ReadonlyArray<string> =>
  deadTargets(linksOf(files(page) ?? ""), page, files)

/** Returns the links that lead to no file, or to no heading in it. Links are relative to `page`. */
export const deadTargets = (links: ReadonlyArray<string>, page: string, files: Files): ReadonlyArray<string> =>
  links.filter((link) => {
    const text = files(targetOf(page, link))
    const [, anchor] = link.split("#")
    return text === undefined || (anchor !== undefined && !anchorsOf(text).includes(anchor))
  })

export const namesOf = (text: string): ReadonlyArray<string> => [...text.matchAll(named)].map(([name]) => name)

/** The pages that a file names by a dead path. Paths are relative to the file or to `top`, the folder above `docs`. */
export const deadNames = (file: string, files: Files, top = ""): ReadonlyArray<string> =>
  namesOf(files(file) ?? "").filter((name) => {
    const fromTop = name.replace(/^\/usr\/share\/doc\/relay\//, "")
    return [
      [name, file],
      [fromTop, join(top, "README.md")],
    ].every(([name = "", from = ""]) => deadTargets([name], from, files).length > 0)
  })

/** The pages that are reached from one by links, itself among them. */
export const reachedFrom = (page: string, files: Files): ReadonlySet<string> => {
  const reached = new Set([page])
  for (const one of reached) {
    const targets = linksOf(files(one) ?? "").map((link) => targetOf(one, link))
    for (const target of targets.filter((target) => target.endsWith(".md"))) reached.add(target)
  }
  return reached
}
