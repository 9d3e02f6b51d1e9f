/** Reads ARCHITECTURE.md with its table of rooms, and the pages of docs/development. */
import { readdirSync, readFileSync } from "node:fs"
import { join, resolve } from "node:path"

export const root = resolve(import.meta.dir, "..")
export const architecture = readFileSync(join(root, "ARCHITECTURE.md"), "utf8")

const folder = join(root, "docs/development")
/** The pages of docs/development, by their names. */
export const development: ReadonlyMap<string, string> = new Map(
  readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), "utf8")]),
)

export interface Room {
  /** A folder of src, or a file of it. */
  readonly name: string
  readonly imports: ReadonlyArray<string>
  /** Whether its folders are its own: other rooms import only the files next to them. */
  readonly ownFolders: boolean
  /** Whether `node:` modules belong in this room, or the files that may import them. */
  readonly node: boolean | ReadonlyArray<string>
}

const codes = (cell: string): ReadonlyArray<string> => [...cell.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code)

/** The rooms, in the table's order: from the ground up. */
export const rooms: ReadonlyArray<Room> = architecture
  .slice(architecture.indexOf("## Rooms"), architecture.indexOf("## Where Effect stops"))
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
