/**
 * Which branches of the relay's sources an execution takes. A plugin of Bun's
 * loader adds a counter to each function, block and condition of a source when it
 * is first imported, so the relay's own files stay as they are.
 *
 * `install` must run before anything imports a source.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { plugin } from "bun"
import { type Node, type SourceFile, SyntaxKind } from "typescript/unstable/ast"
import { compilerOf } from "../mutants/Places.ts"

/** Counters of all sources. */
const most = 1 << 16
/** Counts are classed: 1, 2, 3, 4 to 7, 8 to 15, 16 to 31, 32 to 127, or more. */
const buckets = 8

const bucketOf = (count: number): number => {
  if (count < 4) return count - 1
  return count < 8 ? 3 : count < 16 ? 4 : count < 32 ? 5 : count < 128 ? 6 : 7
}

/** The counters of the execution in progress, and the places that it has reached. */
export class Counts {
  readonly counts = new Uint32Array(most)
  /** The first element is the number of those that follow. */
  readonly touched = new Uint32Array(most + 1)
  /** Texts of the sources that have counters: they mean something to a parser. */
  readonly words = new Set<string>()
  readonly #seen = new Uint8Array(most * buckets)
  /** Counters of the loaded sources. */
  places = 0
  /** Counters that some execution has reached. */
  reached = 0

  /** Counts a visit of a place. */
  hit(place: number): void {
    const count = this.counts[place] ?? 0
    this.counts[place] = count + 1
    if (count > 0) return
    const last = (this.touched[0] ?? 0) + 1
    this.touched[0] = last
    this.touched[last] = place
  }

  /** Reserves the counters of a source. Returns the first. */
  reserve(count: number): number {
    const first = this.places
    this.places += count
    if (this.places > most) throw new Error("there are more places than counters")
    return first
  }

  /** Forgets the last execution. */
  reset(): void {
    const { counts, touched } = this
    for (let index = touched[0] ?? 0; index > 0; index--) counts[touched[index] ?? 0] = 0
    touched[0] = 0
  }

  /** Reports whether the execution did something that none before it did, and remembers that. */
  isNew(): boolean {
    let found = false
    for (let index = this.touched[0] ?? 0; index > 0; index--) {
      const place = this.touched[index] ?? 0
      const at = place * buckets + bucketOf(this.counts[place] ?? 1)
      if (this.#seen[at] === 1) continue
      const all = this.#seen.subarray(place * buckets, (place + 1) * buckets)
      if (!all.includes(1)) this.reached += 1
      this.#seen[at] = 1
      found = true
    }
    return found
  }
}

interface Instrumented {
  readonly text: string
  readonly places: number
  readonly words: ReadonlyArray<string>
}

/** The fields that hold conditions. */
interface Fields {
  readonly operatorToken?: Node
  readonly left?: Node
  readonly body?: Node
  readonly expression?: Node
  readonly condition?: Node
  readonly statements?: ReadonlyArray<Node>
  readonly text?: string
}

const shortCircuits: ReadonlyArray<SyntaxKind | undefined> = [
  SyntaxKind.AmpersandAmpersandToken,
  SyntaxKind.BarBarToken,
  SyntaxKind.QuestionQuestionToken,
]
const loops: ReadonlyArray<SyntaxKind> = [SyntaxKind.IfStatement, SyntaxKind.WhileStatement, SyntaxKind.DoStatement]
const conditional: ReadonlyArray<SyntaxKind> = [SyntaxKind.ConditionalExpression, SyntaxKind.ForStatement]
const clauses: ReadonlyArray<SyntaxKind> = [SyntaxKind.CaseClause, SyntaxKind.DefaultClause]
const texts: ReadonlyArray<SyntaxKind> = [SyntaxKind.StringLiteral, SyntaxKind.NoSubstitutionTemplateLiteral]

/** Texts longer than this are sentences. */
const longestWord = 32

const isType = ({ kind }: Node): boolean => kind >= SyntaxKind.FirstTypeNode && kind <= SyntaxKind.LastTypeNode

/** The expression of a node that decides which way the execution goes. */
const conditionOf = (node: Node): Node | undefined => {
  const { operatorToken, left, expression, condition } = node as Node & Fields
  if (loops.includes(node.kind)) return expression
  if (conditional.includes(node.kind)) return condition
  return node.kind === SyntaxKind.BinaryExpression && shortCircuits.includes(operatorToken?.kind) ? left : undefined
}

/** Returns a source's text with its counters. */
export const instrument = (source: SourceFile, name: string): Instrumented => {
  const inserts: Array<readonly [at: number, text: string]> = []
  const words = new Set<string>()
  let places = 0
  const hit = (): string => `__hit(__first+${places++})`
  const around = (node: Node, open: string, close: string): void => {
    inserts.push([node.getStart(source), open], [node.end, close])
  }
  const visit = (node: Node): void => {
    if (isType(node) || node.kind === SyntaxKind.ImportDeclaration) return
    const { body, statements, text } = node as Node & Fields
    if (texts.includes(node.kind) && text !== undefined && text !== "" && text.length <= longestWord) words.add(text)
    if (node.kind === SyntaxKind.Block) inserts.push([node.getStart(source) + 1, `${hit()};`])
    if (clauses.includes(node.kind) && statements?.[0] !== undefined)
      inserts.push([statements[0].getStart(source), `${hit()};`])
    if (node.kind === SyntaxKind.ArrowFunction && body !== undefined && body.kind !== SyntaxKind.Block)
      around(body, `(${hit()},`, ")")
    const condition = conditionOf(node)
    if (condition !== undefined) {
      around(condition, `__if(__first+${places},(`, "))")
      places += 2
    }
    node.forEachChild(visit)
  }
  source.forEachChild(visit)
  const head = `const __counts=globalThis.__relayCounts,__first=__counts.reserve(${places}),__hit=(place)=>__counts.hit(place),__if=(place,value)=>{__counts.hit(value?place:place+1);return value};`
  let at = 0
  let text = ""
  // If two are at the same place, the outer was found first, and the sort keeps their order.
  for (const [place, inserted] of inserts.toSorted((a, b) => a[0] - b[0])) {
    text += source.text.slice(at, place) + inserted
    at = place
  }
  const isScript = source.text.startsWith("#!")
  if (isScript) throw new Error(`${name} can't have counters`)
  return { text: head + text + source.text.slice(at), places, words: [...words] }
}

const hashOf = (text: string): string => Bun.hash(text).toString(36)

/** Adds counters to the sources below `folder`, and keeps the results in `cache` until a source changes. */
export const install = async (root: string, cache: string): Promise<Counts> => {
  const counts = new Counts()
  Object.assign(globalThis, { __relayCounts: counts })
  const own = hashOf(readFileSync(import.meta.path, "utf8"))
  const kept: Record<string, Instrumented & { readonly hash: string }> = existsSync(cache)
    ? JSON.parse(readFileSync(cache, "utf8"))
    : {}
  const files = [...new Bun.Glob("src/**/*.ts").scanSync(root)].filter((file) => !/browser|\.d\.ts$/.test(file))
  const hashes = new Map(files.map((file) => [file, `${own}${hashOf(readFileSync(join(root, file), "utf8"))}`]))
  const stale = files.filter((file) => kept[file]?.hash !== hashes.get(file))
  if (stale.length > 0) {
    const compiler = await compilerOf(root)
    for (const file of stale)
      kept[file] = { ...instrument(await compiler.source(file), file), hash: hashes.get(file) ?? "" }
    await compiler.close()
    mkdirSync(dirname(cache), { recursive: true })
    writeFileSync(cache, JSON.stringify(kept))
  }
  plugin({
    name: "coverage",
    setup: (build) => {
      build.onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => {
        const found = kept[relative(root, path)]
        if (found === undefined) return { contents: readFileSync(path, "utf8"), loader: "ts" }
        for (const word of found.words) counts.words.add(word)
        return { contents: found.text, loader: "ts" }
      })
    },
  })
  return counts
}
