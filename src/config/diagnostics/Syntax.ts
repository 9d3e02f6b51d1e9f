/**
 * Mistakes in a config file's text: what is no JSON.
 *
 * A parser that meets a mistake goes on in a guess, and may report the whole rest
 * of the file. Here each mistake is mended by the smallest edit after which the
 * parser comes furthest, so only mistakes that stand by themselves are reported.
 */
import { createScanner, type ParseError, printParseErrorCode, visit } from "jsonc-parser"
import { type Span, token } from "./Excerpt.ts"

interface SyntaxMistake extends Span {
  readonly message: string
  readonly hint?: string
}

type Words = readonly [message: string, hint?: string]

const words: Readonly<Record<string, Words>> = {
  InvalidSymbol: ["this is not a JSON value", "text is in double quotes; other values are numbers, true, false, null"],
  InvalidNumberFormat: ["this is not a number"],
  PropertyNameExpected: ["a key in double quotes is expected here", 'such as "listen"'],
  ValueExpected: ["a value is expected here"],
  ColonExpected: ["a `:` is missing between key and value"],
  CommaExpected: ["a `,` is missing before this"],
  CloseBraceExpected: ["a `}` is missing: an object is not closed"],
  CloseBracketExpected: ["a `]` is missing: a list is not closed"],
  EndOfFileExpected: [
    "there is more text after the end of the config",
    "the file holds one object: { … }; a `}` or `]` before this may be one too many",
  ],
  UnexpectedEndOfComment: ["a `/*` comment is not closed"],
  UnexpectedEndOfString: [
    'a `"` is missing: the text is not closed on its line',
    "a line break in a text is written \\n",
  ],
  InvalidUnicode: ["an escape like \\u0041 needs four hexadecimal digits"],
  InvalidEscapeCharacter: ["there is no such escape", "write a backslash as \\\\"],
  InvalidCharacter: ["a control character is not allowed in text", "write it as an escape, such as \\t"],
}

const otherQuotes: Words = ['text is in double quotes: "', "other quotation marks are no quotes in JSON"]
const hash: Words = ["a comment begins with `//`, not with `#`"]

/** An edit of the text that may mend a mistake, and what to say if it does. */
interface Edit {
  /** A range, and the text that replaces it. */
  readonly at: number
  readonly end: number
  readonly by: string
  /** Instead of the parser's words. */
  readonly words?: Words
  /** The position of the mistake, when it is not where the parser stopped. */
  readonly span?: Span
}

const inserted = (character: string, code: string): Words | undefined => {
  if (character === "}") return code === "CloseBraceExpected" ? undefined : words.CloseBraceExpected
  if (character === "]") return code === "CloseBracketExpected" ? undefined : words.CloseBracketExpected
  if (character === "{" || character === "[") return [`a \`${character}\` is missing before this`]
  return undefined
}

/** Mistakes inside a text, which don't mislead the parser. */
const insideText: ReadonlySet<string> = new Set(["InvalidUnicode", "InvalidEscapeCharacter", "InvalidCharacter"])

interface Token extends Span {
  readonly kind: number
}

/** The tokens of a line, or of one that a token runs into. */
const tokensIn = (text: string, from: number, to: number): ReadonlyArray<Token> => {
  const scanner = createScanner(text, true)
  scanner.setPosition(from)
  const tokens: Array<Token> = []
  for (let kind: number = scanner.scan(); kind !== token.end; kind = scanner.scan()) {
    const offset = scanner.getTokenOffset()
    if (offset >= to) break
    tokens.push({ kind, offset, length: scanner.getTokenLength() })
  }
  return tokens
}

/** The parser's first error. */
const firstError = (text: string): ParseError | undefined => {
  let found: ParseError | undefined
  const stop = (error: number, offset: number, length: number): never => {
    found = { error, offset, length }
    // The rest of the text is not looked at.
    throw found
  }
  try {
    visit(text, { onError: stop }, { allowTrailingComma: true })
  } catch (thrown) {
    if (thrown !== found) throw thrown
  }
  return found
}

const longestLine = 2_000

/** The edits that may mend the parser's first error. */
const editsFor = (text: string, { error, offset, length }: ParseError): ReadonlyArray<Edit> => {
  const code = printParseErrorCode(error)
  const start = text.lastIndexOf("\n", offset - 1) + 1
  const newline = text.indexOf("\n", offset)
  const end = newline === -1 ? text.length : newline
  const line = text.slice(start, end)
  if (insideText.has(code)) return [{ at: offset, end: offset + length, by: '""' }]
  if (code === "UnexpectedEndOfComment") return [{ at: text.length, end: text.length, by: "*/" }]
  // If no person has written the line, only the place itself is tried.
  const isLong = line.length > longestLine
  const tokens = isLong ? [] : tokensIn(text, start, end)
  const edits: Array<Edit> = []
  const quote = (at: number) => {
    const token = tokens.findLast((one) => one.offset <= at)
    const opens = token === undefined || token.offset === at || token.offset + token.length < at
    const said: Words = [opens ? 'a `"` is missing before this' : 'a `"` is missing at the end of this text']
    edits.push({
      at,
      end: at,
      by: '"',
      words: said,
      span: opens || token === undefined ? { offset: at, length: 1 } : token,
    })
  }
  const boundaries = new Set([isLong ? offset : end, ...tokens.flatMap((one) => [one.offset, one.offset + one.length])])
  for (const at of boundaries) {
    for (const by of [",", ":", "}", "]", "{", "["]) {
      const said = inserted(by, code)
      edits.push({ at, end: at, by, ...(said === undefined ? {} : { words: said }) })
    }
  }
  // A missing quote begins a word, or ends a text; or it belongs before punctuation that is text without it.
  for (const one of tokens) quote(one.kind === token.string ? one.offset + one.length : one.offset)
  for (let at = start; !isLong && at < end; at++) if (",:]}".includes(text[at] ?? "")) quote(at)
  quote(isLong ? offset : end)
  edits.push({ at: offset, end: offset + Math.max(1, length), by: "" })
  for (const one of tokens) {
    const written = text.slice(one.offset, one.offset + one.length)
    if (one.kind !== token.string) {
      const isKey = /^\s*:/.test(text.slice(one.offset + one.length, end))
      const said = isKey ? words.PropertyNameExpected : undefined
      edits.push({ at: one.offset, end: one.offset + one.length, by: `"${written}"`, ...(said && { words: said }) })
    }
    if (written.startsWith("#")) edits.push({ at: one.offset, end, by: "", words: hash, span: one })
  }
  const plain = isLong ? line : line.replaceAll(/['‘’`“”„«»]/g, '"')
  if (plain !== line) edits.push({ at: start, end, by: plain, words: otherQuotes })
  // A text over several lines, to its closing quote.
  const close = text.indexOf('"', end)
  if (code === "UnexpectedEndOfString" && close !== -1) {
    edits.push({ at: end, end: close, by: text.slice(end, close).replaceAll(/\s+/g, " ") })
  }
  return edits
}

/** The parser's first error, in words, and the text without it; no text when no edit mends it. */
interface Mended {
  readonly mistake: SyntaxMistake
  readonly edit?: Edit
}

const applied = (text: string, { at, end, by }: Edit): string => text.slice(0, at) + by + text.slice(end)

/** Characters that may be parsed for a text, some 100 ms: a reload must not hold up deliveries. */
const budget = 4_000_000
/** The cost of an edit by itself, in such characters. */
const costOfEdit = 500

interface Spending {
  left: number
}

const mend = (text: string, first: ParseError, spending: Spending): Mended => {
  const code = printParseErrorCode(first.error)
  const edits = editsFor(text, first)
  let best: Edit | undefined
  let furthest = first.offset
  for (const edit of edits) {
    if (spending.left <= 0) break
    const next = firstError(applied(text, edit))
    spending.left -= costOfEdit + (next?.offset ?? text.length)
    if (next === undefined) {
      best = edit
      break
    }
    // Measured from the end, so that the length of the edit does not count.
    const reached = text.length - (text.length + edit.by.length - (edit.end - edit.at) - next.offset)
    if (reached > furthest && reached > edit.end) {
      best = edit
      furthest = reached
    }
  }
  const follows = /^\s*:/.test(text.slice(first.offset + first.length))
  const usual = words[code === "InvalidSymbol" && follows ? "PropertyNameExpected" : code] ?? ["this is not JSON"]
  const [message, hint] = best?.words ?? usual
  const { offset, length } = best?.span ?? first
  return {
    mistake: { offset, length, message, ...(hint === undefined ? {} : { hint }) },
    ...(best === undefined ? {} : { edit: best }),
  }
}

/** More are not reported at a time. */
const most = 20

/** The mistakes of a text that does not parse. */
export const syntaxMistakes = (text: string): ReadonlyArray<SyntaxMistake> => {
  const [opening] = tokensIn(text, 0, text.length)
  if (opening !== undefined && !/^["[{]/.test(text.slice(opening.offset))) {
    const message = "this is no JSON: the file holds one object, { … }"
    return [
      { offset: opening.offset, length: opening.length, message, hint: "`relay init` writes a config to start from" },
    ]
  }
  const found: Array<SyntaxMistake> = []
  const edits: Array<Edit> = []
  const spending: Spending = { left: budget }
  let current = text
  /** A place of the current text in the one that was written. */
  const original = (offset: number): number =>
    edits.reduceRight((at, { at: from, end, by }) => {
      if (at < from) return at
      return at >= from + by.length ? at - by.length + (end - from) : from
    }, offset)
  while (found.length < most) {
    const first = firstError(current)
    if (first === undefined) break
    const { mistake, edit } = mend(current, { ...first, offset: Math.min(first.offset, current.length) }, spending)
    found.push({ ...mistake, offset: original(mistake.offset) })
    if (edit === undefined) break
    current = applied(current, edit)
    edits.push(edit)
  }
  return found
}
