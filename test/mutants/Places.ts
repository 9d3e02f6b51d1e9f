/**
 * The small changes that a source allows: another operator, constant or
 * condition, or one statement less. TypeScript parses the source, and says
 * whether a changed one still compiles.
 */
import { join } from "node:path"
import { type Node, type SourceFile, SyntaxKind } from "typescript/unstable/ast"
import { API } from "typescript/unstable/async"

export type Kind = "operator" | "constant" | "condition" | "statement"

export interface Place {
  readonly kind: Kind
  readonly start: number
  readonly end: number
  /** The text in place of the source's from `start` to `end`. */
  readonly becomes: string
}

/** One operator in place of another. */
const operators: Partial<Record<SyntaxKind, string>> = {
  [SyntaxKind.EqualsEqualsEqualsToken]: "!==",
  [SyntaxKind.ExclamationEqualsEqualsToken]: "===",
  [SyntaxKind.LessThanToken]: "<=",
  [SyntaxKind.LessThanEqualsToken]: "<",
  [SyntaxKind.GreaterThanToken]: ">=",
  [SyntaxKind.GreaterThanEqualsToken]: ">",
  [SyntaxKind.AmpersandAmpersandToken]: "||",
  [SyntaxKind.BarBarToken]: "&&",
  [SyntaxKind.PlusToken]: "-",
  [SyntaxKind.MinusToken]: "+",
  [SyntaxKind.AsteriskToken]: "/",
  [SyntaxKind.SlashToken]: "*",
  [SyntaxKind.PercentToken]: "*",
  [SyntaxKind.PlusEqualsToken]: "-=",
  [SyntaxKind.MinusEqualsToken]: "+=",
}

/** The node's own fields that places are found by. */
interface Fields {
  readonly operatorToken?: Node
  readonly operator?: SyntaxKind
  readonly operand?: Node
  readonly expression?: Node
  readonly condition?: Node
}

const isType = ({ kind }: Node): boolean => kind >= SyntaxKind.FirstTypeNode && kind <= SyntaxKind.LastTypeNode

const statements: ReadonlyArray<SyntaxKind> = [
  SyntaxKind.ExpressionStatement,
  SyntaxKind.ContinueStatement,
  SyntaxKind.BreakStatement,
]

/** Returns the places of a source in their order, without types and imports. */
export const placesOf = (source: SourceFile): ReadonlyArray<Place> => {
  const places: Array<Place> = []
  const add = (kind: Kind, node: Node, becomes: string): void => {
    places.push({ kind, start: node.getStart(source), end: node.end, becomes })
  }
  const negate = (node: Node): void => add("condition", node, `!(${node.getText(source)})`)
  const visit = (node: Node): void => {
    if (isType(node) || node.kind === SyntaxKind.ImportDeclaration) return
    const { operatorToken, operator, operand, expression, condition } = node as Node & Fields
    const operation = operatorToken && operators[operatorToken.kind]
    if (node.kind === SyntaxKind.BinaryExpression && operatorToken && operation !== undefined)
      add("operator", operatorToken, operation)
    if (node.kind === SyntaxKind.NumericLiteral)
      add("constant", node, node.getText(source) === "0" ? "1" : `(${node.getText(source)} + 1)`)
    if (node.kind === SyntaxKind.TrueKeyword) add("constant", node, "false")
    if (node.kind === SyntaxKind.FalseKeyword) add("constant", node, "true")
    if (node.kind === SyntaxKind.PrefixUnaryExpression && operator === SyntaxKind.ExclamationToken && operand)
      add("condition", node, operand.getText(source))
    if (node.kind === SyntaxKind.IfStatement || node.kind === SyntaxKind.WhileStatement)
      if (expression) negate(expression)
    if (node.kind === SyntaxKind.ConditionalExpression && condition) negate(condition)
    if (statements.includes(node.kind)) add("statement", node, ";")
    node.forEachChild(visit)
  }
  source.forEachChild(visit)
  return places.toSorted((a, b) => a.start - b.start || a.end - b.end)
}

/** TypeScript over a project, with sources that are changed only in memory. Close it at the end. */
export interface Compiler {
  readonly source: (file: string) => Promise<SourceFile>
  /** The first error that the source has with this text, or `undefined`. Other files that use it are not checked. */
  readonly error: (file: string, text: string) => Promise<string | undefined>
  readonly close: () => Promise<void>
}

export const compilerOf = async (root: string): Promise<Compiler> => {
  const changed = new Map<string, string>()
  const api = new API({ cwd: root, fs: { readFile: (path: string) => changed.get(path) } })
  const first = await api.updateSnapshot({ openProjects: [join(root, "tsconfig.json")] })
  const programOf = (snapshot: typeof first) => {
    const [project] = snapshot.getProjects()
    if (project === undefined) throw new Error(`TypeScript finds no project in ${root}`)
    return project.program
  }
  return {
    source: async (file) => {
      const source = await programOf(first).getSourceFile(join(root, file))
      if (source === undefined) throw new Error(`TypeScript doesn't find ${file}`)
      return source
    },
    error: async (file, text) => {
      const path = join(root, file)
      changed.set(path, text)
      try {
        const snapshot = await api.updateSnapshot({ fileChanges: { changed: [path] } })
        const program = programOf(snapshot)
        const [syntactic] = await program.getSyntacticDiagnostics(path)
        const [found] = syntactic === undefined ? await program.getSemanticDiagnostics(path) : [syntactic]
        return found?.text
      } finally {
        changed.delete(path)
      }
    },
    close: () => api.close(),
  }
}
