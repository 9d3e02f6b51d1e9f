/** Reads the output of `bun test` line by line, while it runs. */

export interface Failure {
  /** The path as the runner prints it. Absent if the runner failed outside of a file. */
  readonly file?: string
  /** The test's full name. Absent if the failure is the whole file's: a hook, or an error between tests. */
  readonly test?: string
  /** The error, with the output before it. */
  readonly said: string
}

interface Found {
  readonly file: string
  readonly test?: string
  readonly lines: Array<string>
}

/** Most lines kept before a failure. */
const context = 60

export class BunOutput {
  passed = 0
  failed = 0
  /** Whether the runner has run all files. It ends without its last line if it crashes. */
  isWhole = false
  readonly skipped: Array<string> = []
  readonly #found: Array<Found> = []
  /** Files in which the runner killed processes that later tests needed. */
  readonly #bereft = new Set<string>()
  readonly #onTest: (file: string, test: string) => void
  #file = ""
  #before: Array<string> = []
  /** Dashed lines that still belong to an error between tests. */
  #dashes = 0
  /** The runner repeats its failures at the end. */
  #isOver = false

  /** `onTest` is called with each test that fails, but not for a hook. */
  constructor(onTest: (file: string, test: string) => void = () => {}) {
    this.#onTest = onTest
  }

  read(line: string): void {
    const [, count, verdict] = /^ *(\d+) (pass|fail)$/.exec(line) ?? []
    if (verdict === "pass") this.passed = Number(count)
    if (verdict === "fail") this.failed = Number(count)
    if (/^Ran \d+ tests? across \d+ files?\./.test(line)) this.isWhole = true
    if (line.startsWith("skipped: ")) this.skipped.push(line)
    if (/^\d+ tests failed:$/.test(line)) this.#isOver = true
    if (!this.#isOver) this.#readTest(line)
  }

  #readTest(line: string): void {
    const last = this.#found.at(-1)
    const [, file] = /^(\S+\.test\.tsx?):$/.exec(line) ?? []
    const [, test] = /^\(fail\) (.*?)(?: \[[\d.]+m?s\])?$/.exec(line) ?? []
    if (this.#dashes > 0) {
      last?.lines.push(line)
      if (/^-{20,}$/.test(line)) this.#dashes -= 1
    } else if (file !== undefined) {
      this.#file = file
      this.#before = []
    } else if (line === "# Unhandled error between tests") {
      this.#found.push({ file: this.#file, lines: [line] })
      this.#dashes = 2
    } else if (test !== undefined) {
      const isHook = test.endsWith("(unnamed)")
      this.#found.push({ file: this.#file, lines: [...this.#before, line], ...(!isHook && { test }) })
      this.#before = []
      if (!isHook) this.#onTest(this.#file, test)
    } else if (/^\((pass|skip|todo)\)/.test(line)) {
      this.#before = []
    } else if (line.startsWith("  ^ ") && this.#before.length === 0 && last?.file === this.#file) {
      // "this test timed out" comes after the test.
      last.lines.push(line)
    } else {
      if (/^killed \d+ dangling process/.test(line)) this.#bereft.add(this.#file)
      this.#before = [...this.#before, line].slice(-context)
    }
  }

  /**
   * The failures in the order of the run. A file's failures are one if a hook failed, or if the runner killed processes
   * that the file's tests share.
   */
  get failures(): ReadonlyArray<Failure> {
    const files = Map.groupBy(this.#found, ({ file }) => file)
    return [...files].flatMap(([file, found]): ReadonlyArray<Failure> => {
      const isWhole = found.some(({ test }) => test === undefined) || (this.#bereft.has(file) && found.length > 1)
      const said = (lines: ReadonlyArray<string>) => lines.join("\n").trim()
      if (isWhole) return [{ file, said: said(found.flatMap(({ lines }) => lines).slice(0, 2 * context)) }]
      return found.map(({ test, lines }) => ({ file, ...(test !== undefined && { test }), said: said(lines) }))
    })
  }
}

/** Returns the arguments that make `bun test` run only a failure's test, or only its file. */
export const alone = ({ file = "", test }: Failure): ReadonlyArray<string> => {
  // The runner prints the names of suites joined by " > ", and compares them joined by " ".
  const pattern = test
    ?.split(" > ")
    .map((name) => name.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&"))
    .join("(?: >)? ")
  return [`./${file}`, ...(pattern === undefined ? [] : ["-t", `^${pattern}$`])]
}
