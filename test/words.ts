/**
 * The words that comments and public texts avoid, and the places that contain them.
 *
 * To see the places: bun test/words.ts
 */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { pagesBelow, readPage } from "./lib/docs.ts"
import { root } from "./lib/programs.ts"

/** A sentence with such a beginning usually lacks its subject or its verb. */
const ellipsis =
  /^(Of|What|As|The same|Those|Whom|Such|Where|Who|Whose|Whoever|But for|So many|Nobody's|Asked|Beside)\b(?!.*\?)/

/** Vague words, each with its replacement. */
const avoided: ReadonlyArray<readonly [pattern: RegExp, use: string]> = [
  [/\ba bug in relay\b/i, "internal error"],
  [/\ball of it or nothing\b/i, "atomically"],
  [/\bbegun anew\b/i, "recreated"],
  [/\bbroke off\b/i, "ended early"],
  [/\bin vain\b/i, "false positive"],
  [/\bis answered 503\b/i, "gets a 503"],
  [/\bare answered 503\b/i, "get a 503"],
  [/\bmended\b/i, "fixed"],
  [/\b(gave|given|give|gives) up\b/i, "abandon"],
  [/\bone mind\b/i, "requires one relay"],
  [/\bset aside\b/i, "moved aside"],
  [/\bsigns? of life\b/i, "heartbeat"],
  [/\bso many\b/i, "the limit's name"],
  [/\bsome \d/i, "about"],
  [/\bsomebody\b/i, "an operator, you"],
  [/\bstands? still\b/i, "stalls"],
  [/\bwhoever\b/i, "operators, the reader"],
]

export interface Place {
  readonly file: string
  readonly line: number
  readonly text: string
}

/** The comments of a source, each with its first line. */
const commentsOf = (text: string): ReadonlyArray<{ readonly line: number; readonly text: string }> =>
  [...text.matchAll(/^[ \t]*(?:\/\*\*?\s*(?:\*\s)?|(?<!\/\/.*\n[ \t]*)\/\/ )(\S.*)$/gm)].map((match) => ({
    line: text.slice(0, match.index + match[0].length).split("\n").length,
    text: (match[1] ?? "").replace(/\s*\*\/$/, ""),
  }))

const sourcesBelow = (folder: string): ReadonlyArray<string> =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => join(folder, name))
    .sort()

/** All comments of src, and the comments that lack a subject or a verb. */
export const comments = (): { readonly all: number; readonly elliptic: ReadonlyArray<Place> } => {
  const all = sourcesBelow("src").flatMap((file) => commentsOf(readPage(file)).map((one) => ({ file, ...one })))
  return { all: all.length, elliptic: all.filter(({ text }) => ellipsis.test(text)) }
}

/** Texts that operators read on a pager or a screen: annotations of alerts, and titles and descriptions of panels. */
const monitoring: Readonly<Record<string, RegExp>> = {
  "config/monitoring/alerts.rules.yml": /^ +(?:#|summary:|description:) "?(.*?)"?$/,
  "config/monitoring/grafana.json": /^ +"(?:title|description)": "(.*)",?$/,
}

const monitoringTexts = (): ReadonlyArray<Place> =>
  Object.entries(monitoring).flatMap(([file, form]) =>
    readPage(file)
      .split("\n")
      .flatMap((line, index) => {
        const [, text] = form.exec(line) ?? []
        return text === undefined ? [] : [{ file, line: index + 1, text }]
      }),
  )

const publicPages = [
  "README.md",
  "SECURITY.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
  ...["config", "docs"].flatMap(pagesBelow),
]

/** Returns the last cell of a table row in the reference, because the other cells are generated from schemas. */
const readable = (line: string): string => (line.startsWith("| `") ? (line.split(" | ").at(-1) ?? "") : line)

/** The paragraphs, items and rows of the docs, and the texts of alerts and panels, that lack a subject or a verb. */
export const ellipticDocs = (): { readonly all: number; readonly elliptic: ReadonlyArray<Place> } => {
  const ofPages = publicPages.flatMap((file) =>
    readPage(file)
      .split("\n")
      .map((text, index, lines) => ({ file, line: index + 1, text, before: lines[index - 1] ?? "" }))
      .filter(({ text, before }) => /^(- |\d+\. |\| `)/.test(text) || (before === "" && /^[A-Z]/.test(text)))
      .map(({ file, line, text }) => ({ file, line, text: readable(text).replace(/^(- |\d+\. )/, "") })),
  )
  const all = [...ofPages, ...monitoringTexts()]
  return { all: all.length, elliptic: all.filter(({ text }) => ellipsis.test(text)) }
}

/** The lines of the docs, and the texts of alerts and panels, that contain a word to avoid. */
export const avoidedWords = (): ReadonlyArray<Place & { readonly use: string }> => {
  const ofPages = publicPages.flatMap((file) =>
    readFileSync(join(root, file), "utf8")
      .split("\n")
      .map((text, index) => ({ file, line: index + 1, text })),
  )
  return [...ofPages, ...monitoringTexts()].flatMap((place) =>
    avoided.filter(([pattern]) => pattern.test(place.text)).map(([, use]) => ({ ...place, use })),
  )
}

/** Words that must not be in an exported name, because each has a plainer one. */
const avoidedNames = /^(breath|foreseeable|mended|said|somebody|then|told|whoever)$/i

/** Exported names of src that contain a word to avoid. */
export const avoidedExports = (): ReadonlyArray<string> =>
  sourcesBelow("src").flatMap((file) =>
    [...readPage(file).matchAll(/^export (?:const|class|function|interface|type|abstract class) (\w+)/gm)]
      .map(([, name = ""]) => name)
      .filter((name) => (name.match(/[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])/g) ?? []).some((word) => avoidedNames.test(word)))
      .map((name) => `${file}: ${name}`),
  )

if (import.meta.main) {
  for (const { file, line, text } of [...comments().elliptic, ...ellipticDocs().elliptic])
    console.log(`${file}:${line} ${text.slice(0, 100)}`)
  for (const { file, line, text, use } of avoidedWords()) console.log(`${file}:${line} [${use}] ${text.slice(0, 100)}`)
}
