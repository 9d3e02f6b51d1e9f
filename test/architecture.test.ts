/** ARCHITECTURE.md and docs/development agree with the code: the table of rooms, the named files, and the recipes. */
import { describe, expect, test } from "bun:test"
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs"
import { basename, dirname, join, relative } from "node:path"
import { architecture, development, type Room, rooms, root } from "./architecture.ts"
import { lines } from "./faults/Lines.ts"
import { rehearsals } from "./lib/tries.ts"

const read = (path: string): string => readFileSync(join(root, path), "utf8")
const isThere = (path: string): boolean => existsSync(join(root, path))
const foldersOf = (path: string): ReadonlyArray<string> =>
  readdirSync(join(root, path)).filter((name) => statSync(join(root, path, name)).isDirectory())
const filesBelow = (path: string): ReadonlyArray<string> =>
  readdirSync(join(root, path), { recursive: true, encoding: "utf8" })
    .map((name) => join(path, name))
    .filter((name) => /\.tsx?$/.test(name))

const sources = filesBelow("src")

/** The files of src that a file imports. Types, lazy imports and `export from` count. */
const importsOf = (file: string): ReadonlyArray<string> =>
  [...read(file).matchAll(/^(?:import|export)\b[^"';]*?from "(\.[^"]+)"|\bimport\("(\.[^"]+)"\)|^import "(\.[^"]+)"/gm)]
    .map(([, from, lazy, bare]) => join(dirname(file), from ?? lazy ?? bare ?? ""))
    .filter((target) => target.startsWith("src/") && /\.tsx?$/.test(target))

const graph = new Map(sources.map((file) => [file, importsOf(file)]))
const roomOf = (file: string): string => file.split("/")[1] ?? ""
const byName = new Map(rooms.map((room) => [room.name, room]))
const room = (name: string): Room => byName.get(name) ?? { name, imports: [], ownFolders: false, node: false }

/** The imports of src whose specifier matches. */
const importsMatching = (pattern: RegExp): ReadonlyArray<{ readonly file: string; readonly specifier: string }> =>
  sources.flatMap((file) =>
    [...read(file).matchAll(/^(?:import|export)\b[^"';]*?"([^"]+)"|\bimport\("([^"]+)"\)/gm)]
      .map(([, specifier, lazy]) => ({ file, specifier: specifier ?? lazy ?? "" }))
      .filter(({ specifier }) => pattern.test(specifier)),
  )

/** All files loaded with a file: its imports, and theirs. Types and dynamic imports don't count. */
const loadedWith = (file: string, loaded = new Set<string>()): ReadonlySet<string> => {
  if (loaded.has(file)) return loaded
  loaded.add(file)
  if (!/^src\/.*\.tsx?$/.test(file)) return loaded
  for (const { path, kind } of new Bun.Transpiler({ loader: "ts" }).scanImports(read(file))) {
    if (kind === "import-statement") loadedWith(path.startsWith(".") ? join(dirname(file), path) : path, loaded)
  }
  return loaded
}

/** The imports that leave a room. */
const crossing = [...graph].flatMap(([file, targets]) =>
  targets.filter((target) => roomOf(target) !== roomOf(file)).map((target) => ({ file, target })),
)

describe("the table of rooms", () => {
  test("has a row for each folder and file of src", () => {
    expect(readdirSync(join(root, "src")).sort()).toEqual(rooms.map(({ name }) => name).sort())
  })

  test("lets a room import only rooms above it", () => {
    const above = rooms.map(({ name, imports }, index) => ({
      name,
      below: imports.filter((imported) => !rooms.slice(0, index).some((earlier) => earlier.name === imported)),
    }))
    expect(above.filter(({ below }) => below.length > 0)).toEqual([])
  })

  test("allows every import between rooms", () => {
    expect(crossing.length).toBeGreaterThan(100)
    const wrong = crossing.filter(({ file, target }) => !room(roomOf(file)).imports.includes(roomOf(target)))
    expect(wrong.map(({ file, target }) => `${file} imports ${target}`)).toEqual([])
  })

  test("lists no import that doesn't exist", () => {
    const used = new Set(crossing.map(({ file, target }) => `${roomOf(file)} ${roomOf(target)}`))
    expect(
      rooms
        .flatMap(({ name, imports }) => imports.map((imported) => `${name} ${imported}`))
        .filter((_) => !used.has(_)),
    ).toEqual([])
  })

  test("keeps files of one sink or one journal from other rooms", () => {
    const wrong = crossing.filter(({ target }) => room(roomOf(target)).ownFolders && target.split("/").length > 3)
    expect(wrong.map(({ file, target }) => `${file} imports ${target}`)).toEqual([])
  })

  test("allows every import of a `node:` module", () => {
    const wrong = importsMatching(/^node:/).filter(({ file }) => {
      const { name, node } = room(roomOf(file))
      return typeof node === "boolean" ? !node : !node.some((allowed) => file === `src/${name}/${allowed}`)
    })
    expect(wrong).toEqual([])
  })

  test("allows platform modules only in runtime", () => {
    const platforms = importsMatching(/^(@effect\/platform-|bun(:|$))/)
    expect(platforms.length).toBeGreaterThan(0)
    expect(platforms.filter(({ file }) => roomOf(file) !== "runtime")).toEqual([])
  })
})

describe("the sources", () => {
  test("have no circle of imports", () => {
    const done = new Set<string>()
    const circles: Array<string> = []
    const visit = (file: string, path: ReadonlyArray<string>): void => {
      if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(" -> "))
      if (done.has(file)) return
      done.add(file)
      for (const target of graph.get(file) ?? []) visit(target, [...path, file])
    }
    for (const file of sources) visit(file, [])
    expect(circles).toEqual([])
  })

  test("have no file name twice", () => {
    const names = sources.map((file) => basename(file))
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
  })

  test("have no file above 600 lines", () => {
    expect(sources.filter((file) => read(file).trimEnd().split("\n").length > 600)).toEqual([])
  })

  test("have at most 16 files in a folder, but for the commands", () => {
    const folders = Map.groupBy(sources, (file) => dirname(file))
    folders.delete("src/cli/commands")
    expect([...folders].filter(([, files]) => files.length > 16).map(([folder]) => folder)).toEqual([])
  })

  test("have the rehearsals that a plain run leaves out", () => {
    expect(rehearsals.filter((pattern) => [...new Bun.Glob(pattern).scanSync(root)].length === 0)).toEqual([])
  })

  test("have private members only by #, as the tests do", () => {
    const all = [...sources, ...filesBelow("test")]
    expect(all.filter((file) => /^\s+private (?!constructor\b)/m.test(read(file)))).toEqual([])
  })
})

/** Names in backticks that look like a file or a folder. `<name>` is a placeholder for a file to be added. */
const named = [
  ...new Set(
    [...[architecture, ...development.values()].join("\n").matchAll(/`([\w./-]+(?:\.(?:ts|md|json|yml)|\/))`/g)].map(
      ([, name = ""]) => name,
    ),
  ),
]
const everything = [...readdirSync(join(root, "src"), { recursive: true }), ...filesBelow("test")].map((file) =>
  basename(String(file)),
)

const page = (name: string): string => development.get(name) ?? ""

describe("ARCHITECTURE.md and docs/development", () => {
  test("names only files and folders that there are", () => {
    expect(named.length).toBeGreaterThan(40)
    const missing = named.filter((name) =>
      name.includes("/") ? !isThere(name) : !isThere(name) && !everything.includes(name),
    )
    expect(missing).toEqual([])
  })

  test("names only lines of the fault campaign that there are", () => {
    const table = page("testing.md").slice(page("testing.md").indexOf("| promise |"))
    const cells = table
      .split("\n")
      .slice(2)
      .map((row) => row.split("|")[4] ?? "")
    const all = cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name))
    expect(all.length).toBeGreaterThan(10)
    const known = lines.map(({ name }) => name)
    expect(all.filter((name) => name !== undefined && !known.includes(name))).toEqual([])
  })

  test("have a map of 2,500 words at most", () => {
    expect(architecture.split(/\s+/).length).toBeLessThanOrEqual(2_500)
  })
})

describe("what is loaded", () => {
  test("the command line loads no command, and nothing that only commands need", () => {
    const loaded = [...loadedWith("src/cli/start.ts")].filter((file) => file.startsWith("src/"))
    expect(loaded).toContain("src/cli/Commands.ts")
    expect(loaded.filter((file) => file.startsWith("src/cli/commands/"))).toEqual([])
    expect([...new Set(loaded.map(roomOf))].sort()).toEqual(["cli", "config", "event", "formats", "runtime"])
  })

  test("the client of the admin API loads its schemas, and none of the handlers", () => {
    const loaded = loadedWith("src/admin/AdminClient.ts")
    expect(loaded).toContain("src/admin/api/Api.ts")
    const served = [
      "src/admin/api/Handlers.ts",
      "src/delivery/Lanes.ts",
      "src/sinks/SinkTypes.ts",
      "src/journal/Journals.ts",
    ]
    expect(served.filter((file) => loaded.has(file))).toEqual([])
  })

  test("with the journal's worker is no Effect, which would be half of its memory", () => {
    const loaded = [...loadedWith("src/journal/Worker.ts")]
    expect(loaded).toContain("src/journal/sqlite/search/Index.ts")
    expect(loaded.filter((file) => !/^(src\/|node:)/.test(file))).toEqual([])
  })

  test("the relay loads the client of a service only when a config names it", () => {
    const parts = ["src/Relay.ts", "src/sinks/SinkTypes.ts", "src/journal/Journals.ts"]
    const loaded = parts.flatMap((part) => [...loadedWith(part)])
    expect(loaded).toContain("src/sinks/kafka/Kafka.ts")
    const packages = loaded.filter((file) => !/^(src\/|node:|effect(\/|$)|.*\.(json|md|css|html|js|svg)$)/.test(file))
    expect([...new Set(packages)]).toEqual(["jsonc-parser"])
  })
})

/** The steps of a recipe. */
const steps = (title: string): ReadonlyArray<string> => {
  const recipes = page("recipes.md")
  const from = recipes.indexOf(`## ${title}\n`)
  const section = recipes.slice(from, recipes.indexOf("\n## ", from + 3) >>> 0)
  return section.split("\n").filter((line) => /^\d\. /.test(line))
}

/** The first path in a step. */
const pathOf = (title: string, step: number): string => /`([^`]+)`/.exec(steps(title)[step - 1] ?? "")?.[1] ?? ""

/** The lines of a list that import from a folder: `export { A as a } from "./a/A.ts"`, also `as "a-b"`. */
const listed = (list: string): ReadonlyArray<{ readonly name: string; readonly from: string }> =>
  [...read(list).matchAll(/^(?:export|import) \{ (?:\w+ as )?"?([\w-]+)"? \} from "(\.\/[\w-]+\/[^"]+)"$/gm)].map(
    ([, name = "", from = ""]) => ({
      name,
      from: relative(root, join(root, dirname(list), from)),
    }),
  )

describe("the recipe for", () => {
  test("a sink is followed by each: its folder, one line, one call of the contract", () => {
    const folders = foldersOf("src/sinks").filter((name) => name !== "alerts" && name !== "aws")
    const lines = listed(pathOf("Add a sink", 2)).filter(({ from }) => !from.startsWith("src/sinks/alerts/"))
    expect(lines.map(({ from }) => `${dirname(from)}/`).sort()).toEqual(
      folders.map((sink) => pathOf("Add a sink", 1).replace("<sink>", sink)).sort(),
    )
    for (const sink of folders) {
      const tests = readdirSync(join(root, pathOf("Add a sink", 3).replace("<sink>", sink)))
      const [contract, ...more] = tests.filter((name) => name.endsWith(".contract.test.ts"))
      expect([sink, more]).toEqual([sink, []])
      expect(read(`test/sinks/${sink}/${contract}`)).toContain("sinkContract(")
    }
  })

  test("an alert service is followed by each: its folder, one line, one call of the contract", () => {
    const folders = foldersOf("src/sinks/alerts")
    const lines = listed(pathOf("Add an alert service", 2)).filter(({ from }) => from.startsWith("src/sinks/alerts/"))
    expect(lines.map(({ from }) => `${dirname(from)}/`).sort()).toEqual(
      folders.map((service) => pathOf("Add an alert service", 1).replace("<service>", service)).sort(),
    )
    for (const service of folders) {
      const tests = filesBelow(pathOf("Add an alert service", 3).replace("<service>", service)).map(read)
      expect([service, tests.filter((text) => text.includes("alertContract(")).length]).toEqual([service, 1])
    }
  })

  test("a command is followed by each: its file, its entry, its row in the README, a test that runs it", () => {
    const commands = readdirSync(join(root, "src/cli/commands")).map((file) => basename(file, ".ts"))
    const list = pathOf("Add a command", 2)
    const entries = read(list).matchAll(/^ {2}(\w+): lazy\(.*import\("([^"]+)"\)\)\.(\w+)/gm)
    expect([...entries].map(([, name, from = "", exported]) => [name, exported, join(dirname(list), from)])).toEqual(
      commands.sort().map((command) => [command, command, pathOf("Add a command", 1).replace("<command>", command)]),
    )
    const wholeProgram = filesBelow("test/e2e").map(read).join("\n")
    for (const command of commands) {
      expect(read(pathOf("Add a command", 3))).toMatch(new RegExp(`^\\| .*\`${command}[\` ]`, "m"))
      const own = pathOf("Add a command", 4).replace("<command>", command)
      if (!isThere(own)) expect(wholeProgram).toMatch(new RegExp(`["\`]${command}[" \`]`))
    }
  })

  test("a metric is followed by each: one declaration, and its name in the test", () => {
    const declared = [...read(pathOf("Add a metric", 2)).matchAll(/"(relay_\w+)"/g)].map(([, name = ""]) => name)
    expect(declared.length).toBeGreaterThan(20)
    expect(declared.length).toBe(new Set(declared).size)
    const tested = read(pathOf("Add a metric", 3))
    expect(declared.filter((name) => !tested.includes(`"${name}"`))).toEqual([])
  })

  test("a journal is followed by each: its folder, one line, one call of the contract, which opens it again", () => {
    const folders = foldersOf("src/journal").filter((folder) => folder !== "stream" && folder !== "archive")
    const lines = listed(pathOf("Add a journal", 2)).filter(({ from }) => !from.startsWith("src/journal/archive/"))
    expect(lines.map(({ from }) => `${dirname(from)}/`).sort()).toEqual(
      folders.map((journal) => pathOf("Add a journal", 1).replace("<journal>", journal)).sort(),
    )
    for (const journal of folders) {
      const tests = filesBelow(`test/journal/${journal}`).map(read)
      const calls = tests.filter((text) => text.includes("journalContract("))
      expect([journal, calls.length]).toEqual([journal, 1])
    }
    expect(read("test/contract/journalContract.ts")).toContain("durability")
  })
})
