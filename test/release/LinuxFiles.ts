/** Paths and contents of the relay's files on a Linux system that has it installed. */
import { readdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { jsonSchemaText } from "../../src/config/schema/JsonSchema.ts"
import { journalTypes } from "../../src/journal/Journals.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import type { Help } from "./Help.ts"

export interface InstalledFile {
  readonly path: string
  readonly content: string | Uint8Array
  /** Whether administrators edit the file. An upgrade then keeps it. */
  readonly isConfig?: boolean
}

const replaced = (text: string, ...changes: ReadonlyArray<readonly [from: string | RegExp, to: string]>): string =>
  changes.reduce((text, [from, to]) => {
    const changed = text.replace(from, to)
    if (changed === text) throw new Error(`${from} is not there to be replaced`)
    return changed
  }, text)

/** config/deploy/relay.service with the program and the user from the package. */
export const unitOf = (unit: string): string =>
  replaced(
    unit,
    [/^# The relay as a service.*?\n\n/s, ""],
    ["ExecStart=/usr/local/bin/relay ", "ExecStart=/usr/bin/relay "],
    ["ExecReload=/usr/local/bin/relay ", "ExecReload=/usr/bin/relay "],
    ["\nDynamicUser=yes\n", "\nUser=relay\nGroup=relay\n"],
    // UMask lets the group see file names for `relay doctor`, and read no file.
    ["StateDirectoryMode=0700", "StateDirectoryMode=0750"],
  )

const schema = "/usr/share/relay/relay.schema.json"
const docs = "/usr/share/doc/relay"

const packaged = "config/deploy/packaged.json"
const unit = "config/deploy/relay.service"
/** The default config, which the pages also show. */
const fallback = "relay.config.json"

/** The files that are not installed with the docs. */
const places: Readonly<Record<string, string>> = {
  [packaged]: "/etc/relay/relay.config.json",
  [unit]: "/usr/lib/systemd/system/relay.service",
  "config/relay.schema.json": schema,
}

/** The repository's pages and the files that they show: all below docs/ and config/ except images. */
const documented = (root: string): ReadonlyArray<string> => [
  "CHANGELOG.md",
  "SECURITY.md",
  fallback,
  ...["config", "docs"]
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)),
    )
    .toSorted()
    .filter((path) => !path.startsWith("docs/images") && statSync(join(root, path)).isFile() && !(path in places)),
]

/** The installed path of a file of the repository. The docs keep their paths, so relative links stay as they are. */
const placeOf = (path: string): string => places[path] ?? join(docs, path)

/**
 * A page with links to the installed paths. A link to a file that isn't installed, such as a test, becomes plain text.
 */
const relinked = (page: string, text: string, installed: ReadonlySet<string>): string =>
  text.replaceAll(/\[([^\]]+)\]\(((?!https?:)[^)#\s]+)(#[^)\s]*)?\)/g, (_, words: string, to: string, anchor = "") => {
    const target = join(dirname(page), to)
    if (!installed.has(target)) return words
    return `[${words}](${relative(dirname(placeOf(page)), placeOf(target))}${anchor})`
  })

/** The pages, which link each other and the examples. */
const pagesOf = (root: string): ReadonlyArray<InstalledFile> => {
  const paths = documented(root)
  const installed = new Set([...paths, ...Object.keys(places)])
  return paths.map((path) => {
    const text = readFileSync(join(root, path), "utf8")
    const content = path.endsWith(".md")
      ? relinked(path, text, installed)
      : text.replace(/"\$schema": "[^"]*"/, `"$$schema": "${schema}"`)
    return { path: placeOf(path), content }
  })
}

/** All files except the program itself. `zsh` is the system's directory for completions of zsh. */
export const filesOf = (root: string, { manual, completions }: Help, zsh: string): ReadonlyArray<InstalledFile> => {
  const read = (path: string): string => readFileSync(join(root, path), "utf8")
  return [
    {
      path: placeOf(packaged),
      content: replaced(
        read(packaged),
        ["../relay.schema.json", schema],
        [
          "docs/reference/README.md explains every key.",
          `\`man relay\` has the commands, and\n// ${docs}/docs/reference/README.md explains every key.`,
        ],
      ),
      isConfig: true,
    },
    { path: schema, content: jsonSchemaText({ sinkTypes, journalTypes }) },
    { path: placeOf(unit), content: unitOf(read(unit)) },
    { path: "/usr/share/man/man1/relay.1.gz", content: Bun.gzipSync(manual, { level: 9 }) },
    { path: "/usr/share/bash-completion/completions/relay", content: completions.bash },
    { path: join(zsh, "_relay"), content: completions.zsh },
    { path: "/usr/share/fish/vendor_completions.d/relay.fish", content: completions.fish },
    { path: join(docs, "copyright"), content: read("LICENSE") },
    ...pagesOf(root),
  ]
}
