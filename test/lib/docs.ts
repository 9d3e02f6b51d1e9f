/** The docs of this repository, as the tests read them. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "./programs.ts"

/** The paths of the pages in a folder and below it. */
export const pagesBelow = (folder: string): ReadonlyArray<string> =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join(folder, name))
    .sort()

export const readPage = (path: string): string => readFileSync(join(root, path), "utf8")

const index = readPage("docs/operations/README.md")

/** The pages on operations, joined in the order of their index. */
export const operations = [
  index,
  ...[...index.matchAll(/^- \[.*?\]\((\w+\.md)\)/gm)].map(([, name = ""]) => readPage(`docs/operations/${name}`)),
].join("\n")

/** The commands of each procedure on these pages, by the heading above it. */
export const procedures: ReadonlyMap<string, string> = new Map(
  [...operations.matchAll(/^##? (.+)\n(?:(?!^##? ).*\n)*?```sh\n((?:(?!```).*\n)*)```$/gm)].map(
    ([, title = "", lines = ""]) => [title, lines],
  ),
)

/** All configs in the docs, except for the default. */
export const exampleConfigs: ReadonlyArray<string> = [
  "config/deploy/packaged.json",
  ...readdirSync(join(root, "config/examples"))
    .filter((name) => name.endsWith(".json"))
    .map((name) => `config/examples/${name}`),
]
