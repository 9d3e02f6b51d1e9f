/** Which mutants a seed draws: the same number in each module, at random among all places of its sources. */
import { readdirSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import type { SourceFile } from "typescript/unstable/ast"
import { type Compiler, type Place, placesOf } from "./Places.ts"

export const modules = ["journal", "delivery", "event", "ingest", "routing"] as const
export type Module = (typeof modules)[number]

export interface Mutant extends Place {
  readonly module: Module
  readonly file: string
  readonly line: number
  readonly column: number
  /** The source's line, without its indent. */
  readonly code: string
  /** The text that it replaces. */
  readonly was: string
  /** The whole changed source. */
  readonly text: string
}

interface Ranked extends Omit<Mutant, "module" | "text"> {
  readonly rank: bigint
}

/** PostgreSQL runs only with the parts, so without them no test reaches its journal. */
const isDrawn = (file: string): boolean => process.env.RELAY_PARTS === "1" || !file.startsWith("src/journal/postgres/")

const sourcesOf = (root: string, module: Module): ReadonlyArray<string> =>
  readdirSync(join(root, "src", module), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => join("src", module, name))
    .filter(isDrawn)
    .sort()

/**
 * All places of a source in the seed's order. It follows from the text around a place, so a change
 * elsewhere draws the same mutants again.
 */
const ranked = (seed: number, file: string, source: SourceFile): ReadonlyArray<Ranked> => {
  const lines = source.text.split("\n")
  const seen = new Map<string, number>()
  return placesOf(source).map((place) => {
    const before = source.text.slice(0, place.start).split("\n")
    const [line, column] = [before.length, (before.at(-1)?.length ?? 0) + 1]
    const code = lines[line - 1]?.trim() ?? ""
    const was = source.text.slice(place.start, place.end)
    const name = [seed, file, code, was, place.becomes].join("\0")
    const times = (seen.get(name) ?? 0) + 1
    seen.set(name, times)
    return { ...place, file, line, column, code, was, rank: Bun.hash(`${name}\0${times}`) as bigint }
  })
}

/** Yields `count` mutants of the modules in turn. Those that don't compile are passed over. */
export async function* draw(
  root: string,
  compiler: Compiler,
  seed: number,
  count: number,
): AsyncGenerator<Mutant, void, undefined> {
  const drawn = []
  for (const module of modules) {
    const places: Array<Ranked> = []
    for (const file of sourcesOf(root, module)) places.push(...ranked(seed, file, await compiler.source(file)))
    drawn.push([module, places.sort((a, b) => (a.rank < b.rank ? -1 : 1)).values()] as const)
  }
  for (let number = 0; number < count; number++) {
    const [module, places] = drawn[number % drawn.length] ?? []
    if (module === undefined || places === undefined) return
    for (const { rank: _, ...place } of places) {
      const { text } = await compiler.source(place.file)
      const changed = `${text.slice(0, place.start)}${place.becomes}${text.slice(place.end)}`
      if ((await compiler.error(place.file, changed)) !== undefined) continue
      yield { ...place, module, text: changed }
      break
    }
  }
}
