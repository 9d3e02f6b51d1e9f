/** Where the files of the relay lie on a Linux that has it installed, and what stands in them. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { jsonSchemaText } from "../../src/config/schema/JsonSchema.ts"
import { journalTypes } from "../../src/journal/Journals.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import type { Help } from "./Help.ts"

export interface InstalledFile {
  readonly path: string
  readonly content: string | Uint8Array
  /** What an administrator edits: an upgrade keeps it. */
  readonly isConfig?: boolean
}

const replaced = (text: string, ...changes: ReadonlyArray<readonly [from: string | RegExp, to: string]>): string =>
  changes.reduce((text, [from, to]) => {
    const changed = text.replace(from, to)
    if (changed === text) throw new Error(`${from} is not there to be replaced`)
    return changed
  }, text)

/** config/deploy/relay.service with the program and the user that the package brings. */
export const unitOf = (unit: string): string =>
  replaced(
    unit,
    [/^# The relay as a service.*?\n\n/s, ""],
    ["ExecStart=/usr/local/bin/relay ", "ExecStart=/usr/bin/relay "],
    ["\nDynamicUser=yes\n", "\nUser=relay\nGroup=relay\n"],
    // Its group may see what is there, for `relay doctor`, and read nothing: UMask.
    ["StateDirectoryMode=0700", "StateDirectoryMode=0750"],
  )

const schema = "/usr/share/relay/relay.schema.json"
const docs = "/usr/share/doc/relay"

/** The reference and the operations pages, which link each other by their places below config/. */
const pagesOf = (root: string): ReadonlyArray<InstalledFile> =>
  ["reference", "operations"].flatMap((folder) =>
    readdirSync(join(root, "config", folder), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".md"))
      .toSorted()
      .map((name) => ({
        path: join(docs, folder, name),
        content: readFileSync(join(root, "config", folder, name)),
      })),
  )

/** All but the program itself. `zsh` is where the system's zsh looks for completions. */
export const filesOf = (root: string, { manual, completions }: Help, zsh: string): ReadonlyArray<InstalledFile> => {
  const read = (path: string): string => readFileSync(join(root, path), "utf8")
  return [
    {
      path: "/etc/relay/relay.config.json",
      content: replaced(
        read("config/deploy/packaged.json"),
        ["../relay.schema.json", schema],
        [
          "config/README.md explains every key.",
          `\`man relay\` has the commands, and\n// ${docs}/reference/README.md explains every key.`,
        ],
      ),
      isConfig: true,
    },
    { path: schema, content: jsonSchemaText({ sinkTypes, journalTypes }) },
    { path: "/usr/lib/systemd/system/relay.service", content: unitOf(read("config/deploy/relay.service")) },
    { path: "/usr/share/man/man1/relay.1.gz", content: Bun.gzipSync(manual, { level: 9 }) },
    { path: "/usr/share/bash-completion/completions/relay", content: completions.bash },
    { path: join(zsh, "_relay"), content: completions.zsh },
    { path: "/usr/share/fish/vendor_completions.d/relay.fish", content: completions.fish },
    { path: join(docs, "copyright"), content: read("LICENSE") },
    { path: join(docs, "CHANGELOG.md"), content: read("CHANGELOG.md") },
    ...pagesOf(root),
  ]
}
