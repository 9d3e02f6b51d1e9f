/**
 * The table of rooms in ARCHITECTURE.md, and the linter's rules that follow from
 * it: one override of `noRestrictedImports` for each room.
 *
 * After a change of the table: bun test/architecture.ts
 */
import { readFileSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"

export const root = resolve(import.meta.dir, "..")
export const architecture = readFileSync(join(root, "ARCHITECTURE.md"), "utf8")

export interface Room {
  /** A folder of src, or a file of it. */
  readonly name: string
  readonly imports: ReadonlyArray<string>
  /** Whether its folders are its own: other rooms import only the files beside them. */
  readonly ownFolders: boolean
  /** Whether `node:` modules belong here, or the files where they do. */
  readonly node: boolean | ReadonlyArray<string>
}

const codes = (cell: string): ReadonlyArray<string> => [...cell.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code)

/** The rooms, in the table's order: from the ground up. */
export const rooms: ReadonlyArray<Room> = architecture
  .slice(architecture.indexOf("## Rooms"), architecture.indexOf("## Glossary"))
  .split("\n")
  .filter((line) => line.startsWith("| `"))
  .map((line) => {
    const [name = "", , imports = "", folders = "", node = ""] = line.split("|").slice(1)
    const files = codes(node)
    return {
      name: codes(name)[0] ?? "",
      imports: codes(imports),
      ownFolders: folders.trim() === "own",
      node: files.length > 0 ? files : node.trim() === "yes",
    }
  })

const isFile = (room: string): boolean => room.endsWith(".ts")

/** What an import of a room looks like, from wherever it is. */
const specifiers = (room: string): string => (isFile(room) ? `**/${room}` : `**/${room}/**`)

const patterns = ({ name, imports }: Room, mayNode: boolean): ReadonlyArray<object> => {
  const denied = rooms.filter((room) => room.name !== name && !imports.includes(room.name))
  const closed = rooms.filter((room) => imports.includes(room.name) && room.ownFolders)
  return [
    ...(mayNode ? [] : [{ group: ["node:*"], message: "Take what you need from a service of runtime or journal." }]),
    ...(name === "runtime"
      ? []
      : [
          {
            group: ["@effect/platform-*", "@effect/platform-*/**", "bun", "bun:*"],
            message: "Only runtime names a platform.",
          },
        ]),
    ...(denied.length === 0
      ? []
      : [
          {
            group: denied.map((room) => specifiers(room.name)),
            message: `${name} may import: ${imports.join(", ") || "nothing of ours"} (ARCHITECTURE.md).`,
          },
        ]),
    ...closed.map((room) => ({
      group: [`**/${room.name}/*/**`],
      message: `Of ${room.name} import only the files beside its folders (ARCHITECTURE.md).`,
    })),
  ]
}

const override = (includes: ReadonlyArray<string>, room: Room, mayNode: boolean) => ({
  includes,
  linter: {
    rules: {
      style: { noRestrictedImports: { level: "error", options: { patterns: patterns(room, mayNode) } } },
    },
  },
})

/** The overrides that the table asks for. */
export const overrides = rooms.flatMap((room) => {
  const all = isFile(room.name) ? `src/${room.name}` : `src/${room.name}/**`
  if (typeof room.node === "boolean") return [override([all], room, room.node)]
  const files = room.node.map((file) => `src/${room.name}/${file}`)
  return [override([all, ...files.map((file) => `!${file}`)], room, false), override(files, room, true)]
})

/** biome.json with the overrides of the table, which are the only ones on a line each. */
export const renew = (text: string): string => {
  const others = text.split("\n").filter((line) => !line.startsWith('    {"'))
  const end = others.lastIndexOf("  ]")
  const lines = overrides.map((one) => `    ${JSON.stringify(one)}`).join(",\n")
  return [...others.slice(0, end), lines, ...others.slice(end)].join("\n")
}

if (import.meta.main) {
  const file = join(root, "biome.json")
  writeFileSync(file, renew(readFileSync(file, "utf8")))
}
