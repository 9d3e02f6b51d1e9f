/**
 * Which tests execute a line of a source. The imports name the files of tests
 * that could; the coverage of each, run alone, says which do. The coverage is
 * kept until the test or the source changes.
 *
 * A test that starts the relay as a process of its own reaches nothing here.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { availableParallelism, tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { bunTest, named } from "./RunTests.ts"

/** Folders of tests that run the relay's parts in their own process. */
const folders = [
  "event",
  "routing",
  "ingest",
  "delivery",
  "journal",
  "formats",
  "reload",
  "admin",
  "cli",
  "faults/simulation",
]

const hashOf = (text: string): string => Bun.hash(text).toString(36)

/** The lines that a test executes in each source, with the source's hash at that time. */
interface Covered {
  readonly test: string
  readonly seconds: number
  readonly passed: boolean
  readonly sources: Readonly<Record<string, { readonly hash: string; readonly lines: ReadonlyArray<number> }>>
}

export interface Reaching {
  readonly file: string
  /** How long it takes alone. */
  readonly seconds: number
}

/** The executed lines of each source of src, from a report in lcov's form. */
export const parseLcov = (report: string): ReadonlyMap<string, ReadonlyArray<number>> =>
  new Map(
    report.split("end_of_record").flatMap((record) => {
      const file = /^SF:(.*)$/m.exec(record)?.[1]
      if (file === undefined || !file.startsWith("src/")) return []
      const lines = [...record.matchAll(/^DA:(\d+),(\d+)/gm)].flatMap(([, line, count]) =>
        count === "0" ? [] : [Number(line)],
      )
      return [[file, lines] as const]
    }),
  )

/** The files that a file imports, lazily or not; types alone don't count. */
const importsOf = (root: string, file: string): ReadonlyArray<string> => {
  const text = readFileSync(join(root, file), "utf8")
  const loader = file.endsWith("x") ? ("tsx" as const) : ("ts" as const)
  return new Bun.Transpiler({ loader })
    .scanImports(text)
    .filter(({ path }) => path.startsWith("."))
    .map(({ path }) => join(dirname(file), path))
    .filter((path) => /\.tsx?$/.test(path) && existsSync(join(root, path)))
}

export class Reach {
  readonly #root: string
  readonly #cache: string
  readonly #covered: Map<string, Covered>
  readonly #imports = new Map<string, ReadonlyArray<string>>()
  readonly #tests: ReadonlyArray<string>

  /** `cache` is the file that keeps the coverage. */
  constructor(root: string, cache: string) {
    this.#root = root
    this.#cache = cache
    const kept: ReadonlyArray<readonly [string, Covered]> = existsSync(cache)
      ? JSON.parse(readFileSync(cache, "utf8"))
      : []
    this.#covered = new Map(kept)
    this.#tests = folders.flatMap((folder) => [...new Bun.Glob(`test/${folder}/**/*.test.ts`).scanSync(root)].sort())
  }

  /** The tests that execute a line, the fastest first. Runs candidates whose coverage isn't known. */
  async of(file: string, line: number): Promise<ReadonlyArray<Reaching>> {
    const hash = hashOf(this.#read(file))
    const candidates = this.#tests.filter((test) => this.#reachable(test).has(file))
    const unknown = candidates.filter((test) => {
      const known = this.#covered.get(test)
      return known?.test !== hashOf(this.#read(test)) || (known.sources[file]?.hash ?? hash) !== hash
    })
    const next = unknown.values()
    await Promise.all(
      Array.from({ length: availableParallelism() }, async () => {
        for (const test of next) await this.#cover(test)
      }),
    )
    return candidates
      .flatMap((test) => {
        const { passed = false, seconds = 0, sources = {} } = this.#covered.get(test) ?? {}
        return passed && sources[file]?.lines.includes(line) === true ? [{ file: test, seconds }] : []
      })
      .toSorted((a, b) => a.seconds - b.seconds)
  }

  #read(file: string): string {
    return readFileSync(join(this.#root, file), "utf8")
  }

  #reachable(test: string): ReadonlySet<string> {
    const found = new Set([test])
    for (const file of found) {
      const imports = this.#imports.get(file) ?? importsOf(this.#root, file)
      this.#imports.set(file, imports)
      for (const imported of imports) found.add(imported)
    }
    return found
  }

  async #cover(test: string): Promise<void> {
    const into = mkdtempSync(join(tmpdir(), "relay-coverage-"))
    try {
      const started = performance.now()
      const coverage = ["--coverage", "--coverage-reporter=lcov", `--coverage-dir=${into}`]
      const { status, failed } = await bunTest(this.#root, [...coverage, test], 180)
      const seconds = (performance.now() - started) / 1000
      if (status !== "passed")
        console.warn(`left out, because it doesn't pass without a change: ${test}: ${named(failed)}`)
      const report = join(into, "lcov.info")
      const lines = existsSync(report) ? parseLcov(readFileSync(report, "utf8")) : new Map<string, Array<number>>()
      const sources = [...lines].map(([file, lines]) => [file, { hash: hashOf(this.#read(file)), lines }] as const)
      this.#covered.set(test, {
        test: hashOf(this.#read(test)),
        seconds,
        passed: status === "passed",
        sources: Object.fromEntries(sources),
      })
      mkdirSync(dirname(this.#cache), { recursive: true })
      writeFileSync(this.#cache, JSON.stringify([...this.#covered]))
    } finally {
      rmSync(into, { recursive: true })
    }
  }
}
