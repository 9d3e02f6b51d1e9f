/**
 * Finds syntax mistakes in a config file.
 *
 * After a mistake, a parser guesses how to continue and may report the whole rest of
 * the file. Instead, each mistake is corrected by the edit with which the parser gets
 * furthest, so that only independent mistakes are reported.
 */
import { createScanner, type ParseError, printParseErrorCode, visit } from "jsonc-parser"
import type { Diagnostic } from "./Diagnostic.ts"

// The line of a config file that a diagnostic shows.
//
// **Guarantee.** It contains no secret. Only keys, and the value that the diagnostic is about if it
// isn't a secret, are shown. All other texts and numbers are masked, and comments are left out.
// Masking works on tokens rather than the parsed tree, so it also works for text that does not parse.
// In such text, only a token at a key's position counts as a key. A part of a text in other quotation
// marks is therefore never shown as a key.

type Excerpt = NonNullable<Diagnostic["excerpt"]>

/** A part of a text. */
export interface Span {
  readonly offset: number
  readonly length: number
}

/** The scanner's token kinds. The library's `const enum` can't be imported by name. */
const token = {
  openBrace: 1,
  comma: 5,
  colon: 6,
  string: 10,
  number: 11,
  lineComment: 12,
  blockComment: 13,
  lineBreak: 14,
  blank: 15,
  unknown: 16,
  end: 17,
}

const opening: ReadonlySet<number> = new Set([1, 3])
const closing: ReadonlySet<number> = new Set([2, 4])

const isComment = (kind: number): boolean => kind === token.lineComment || kind === token.blockComment
const isBlank = (kind: number): boolean => kind === token.blank || kind === token.lineBreak || isComment(kind)

/** Reports whether a token may be a secret: a string, a number, or text that the scanner can't read. */
const isText = (kind: number): boolean => kind === token.string || kind === token.number || kind === token.unknown

/** Reports whether a colon follows, so that the string is a key. */
const colonAhead = (text: string, offset: number): boolean => {
  const colon = /\s*:/y
  colon.lastIndex = offset
  return colon.test(text)
}

/** Reports whether a word without quotes is at the start of a line or an object, so that it is probably a key. */
const isBareKey = (text: string, { offset, end }: Span & { readonly end: number }): boolean =>
  /^[A-Za-z_$][\w$-]*$/.test(text.slice(offset, end)) &&
  /^\s*\{?\s*$/.test(text.slice(text.lastIndexOf("\n", offset - 1) + 1, offset))

/** Text on one line in quotation marks that JSON doesn't have, such as `“listen”`. */
const foreign = /(['‘’`])[^'‘’`\r\n]*['‘’`]|[“”„«»][^“”„«»\r\n]*[“”„«»]/y

/** Returns the end of the text in other quotation marks that starts here, or `undefined` if none does. */
const foreignEnd = (text: string, offset: number): number | undefined => {
  foreign.lastIndex = offset
  return foreign.test(text) ? foreign.lastIndex : undefined
}

/** Returns the end of text that isn't JSON: a blank, a comma or a bracket. So `127.0.0.1:8080` without quotes is one token. */
const strangeEnd = (text: string, offset: number, end: number): number => {
  const rest = /[^\s,[\]{}"]*/y
  rest.lastIndex = end
  rest.test(text)
  const word = text.slice(offset, rest.lastIndex)
  return /^[A-Za-z_$][\w$-]*:$/.test(word) ? end : rest.lastIndex
}

/** Reports whether text in other quotation marks looks like a key. A value may contain any text. */
const isForeignKey = (text: string, { offset, end }: { readonly offset: number; readonly end: number }): boolean =>
  /^[“”„«»'‘’`][A-Za-z_$][\w$-]{0,39}[“”„«»'‘’`]$/.test(text.slice(offset, end))

/** A token of a text: its end, and whether it is a key. */
export interface Token extends Span {
  readonly kind: number
  readonly end: number
  readonly isKey: boolean
}

export const tokensOf = (text: string): ReadonlyArray<Token> => {
  const scanner = createScanner(text, false)
  const tokens: Array<Token> = []
  let before: number = token.openBrace
  let isFirst = true
  for (let kind: number = scanner.scan(); kind !== token.end; kind = scanner.scan()) {
    const offset = scanner.getTokenOffset()
    const quoted = kind === token.unknown ? foreignEnd(text, offset) : undefined
    let end = quoted ?? offset + scanner.getTokenLength()
    const isOpen = (kind === token.unknown || kind === token.number) && quoted === undefined
    if (isOpen && !isBareKey(text, { offset, length: end - offset, end })) end = strangeEnd(text, offset, end)
    const length = end - offset
    if (end !== offset + scanner.getTokenLength()) scanner.setPosition(end)
    // After a missing comma, a key is still the first token of its line. Inside other quotation marks it isn't a key.
    const mayFollow = isFirst && before !== token.colon && before !== token.unknown
    const mayBeKey = before === token.openBrace || before === token.comma || mayFollow
    const isKey =
      mayBeKey &&
      (kind === token.string ||
        (kind === token.unknown &&
          (isForeignKey(text, { offset, end }) || isBareKey(text, { offset, length, end })))) &&
      colonAhead(text, end)
    if (kind === token.lineBreak) isFirst = true
    else if (!isBlank(kind)) {
      before = kind
      isFirst = false
    }
    tokens.push({ kind, offset, length, end, isKey })
  }
  return tokens
}

/** Returns the first of `count` indexes for which `isBeyond` is true, by binary search. */
export const firstBeyond = (count: number, isBeyond: (index: number) => boolean): number => {
  let [low, high] = [0, count]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isBeyond(middle)) high = middle
    else low = middle + 1
  }
  return low
}

/** Masks a token. Quotation marks at its ends are kept. */
const maskOf = ({ kind, offset, end }: Token, text: string): string => {
  if (kind === token.string) return '"…"'
  return foreignEnd(text, offset) === end ? `${text[offset]}…${text[end - 1]}` : "…"
}

/**
 * Returns the first line of `span`, masked, and the position of `span` in it. If the text is shown, returns the
 * position of its character at `inside` instead.
 */
export const excerpt = (
  text: string,
  tokens: ReadonlyArray<Token>,
  span: Span,
  showsValue: boolean,
  inside = 0,
): Excerpt => {
  const start = text.lastIndexOf("\n", span.offset - 1) + 1
  const newline = text.indexOf("\n", span.offset)
  const end = newline === -1 ? text.length : newline
  let line = ""
  let underline: { start: number; length: number } | undefined
  const beyond = (offset: number) => firstBeyond(tokens.length, (index) => (tokens[index]?.end ?? 0) > offset)
  // Only tokens near the span are rendered, because a program may write a config as one line, with a finding for each
  // sink. A token has at least one character.
  const at = beyond(span.offset)
  const last = Math.min(at + 2 * widest, tokens.length - 1)
  for (let index = Math.max(beyond(start), at - 2 * widest); index <= last; index++) {
    const piece = tokens[index]
    if (piece === undefined || piece.offset >= end) break
    const isAt = piece.offset === span.offset
    const about = isAt || (piece.kind === token.unknown && piece.offset < span.offset && span.offset < piece.end)
    const hides = isText(piece.kind) && !(isAt && showsValue) && !piece.isKey
    const written =
      isComment(piece.kind) || piece.kind === token.lineBreak ? "" : text.slice(piece.offset, Math.min(piece.end, end))
    const shown = hides ? maskOf(piece, text) : written.replaceAll(/[\t\r]/g, " ")
    if (about) underline = { start: line.length, length: shown.length }
    if (isAt && inside > 0 && !hides) underline = { start: line.length + inside, length: 1 }
    line += shown
  }
  const trimmed = line.trimEnd()
  // If the text ends too early, there is no token at this position.
  const { start: from, length: underlined } = underline ?? { start: trimmed.length, length: 1 }
  // A span over several lines is underlined to the end of the first.
  const length = span.offset + span.length > end ? trimmed.length - from : underlined
  return crop(trimmed, from, Math.max(1, length))
}

/** Shortens a line that is too wide for a terminal to the part around the span. */
const crop = (line: string, start: number, length: number): Excerpt => {
  if (line.length <= widest) return { text: line, start, length }
  const shown = Math.min(length, widest)
  const from = Math.max(0, Math.min(start - (widest - shown) / 2, line.length - widest))
  const head = from > 0 ? "…" : ""
  const text = `${head}${line.slice(Math.floor(from), Math.floor(from) + widest)}`
  return { text, start: start - Math.floor(from) + head.length, length: shown }
}

const widest = 100

/** Returns the position at which a text is nested deeper than `limit`. The parser is recursive, so the depth is limited. */
export const tooDeep = (text: string, limit: number): number | undefined => {
  const scanner = createScanner(text, true)
  let depth = 0
  for (let kind: number = scanner.scan(); kind !== token.end; kind = scanner.scan()) {
    if (closing.has(kind)) depth--
    if (opening.has(kind) && ++depth > limit) return scanner.getTokenOffset()
  }
  return undefined
}

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

/** An edit of the text that may correct a mistake, and the message if it does. */
interface Edit {
  /** The start of the replaced range. */
  readonly at: number
  readonly end: number
  readonly by: string
  /** The message, in place of the parser's. */
  readonly words?: Words
  /** The position of the mistake, if it isn't where the parser stopped. */
  readonly span?: Span
}

const inserted = (character: string, code: string): Words | undefined => {
  if (character === "}") return code === "CloseBraceExpected" ? undefined : words.CloseBraceExpected
  if (character === "]") return code === "CloseBracketExpected" ? undefined : words.CloseBracketExpected
  if (character === "{" || character === "[") return [`a \`${character}\` is missing before this`]
  return undefined
}

/** Mistakes inside a text, after which the parser continues correctly. */
const insideText: ReadonlySet<string> = new Set(["InvalidUnicode", "InvalidEscapeCharacter", "InvalidCharacter"])

interface LineToken extends Span {
  readonly kind: number
}

/** Returns the tokens of a line. If a token continues on the next line, that line is included. */
const tokensIn = (text: string, from: number, to: number): ReadonlyArray<LineToken> => {
  const scanner = createScanner(text, true)
  scanner.setPosition(from)
  const tokens: Array<LineToken> = []
  for (let kind: number = scanner.scan(); kind !== token.end; kind = scanner.scan()) {
    const offset = scanner.getTokenOffset()
    if (offset >= to) break
    tokens.push({ kind, offset, length: scanner.getTokenLength() })
  }
  return tokens
}

/** Returns the parser's first error. */
const firstError = (text: string): ParseError | undefined => {
  let found: ParseError | undefined
  const stop = (error: number, offset: number, length: number): never => {
    found = { error, offset, length }
    // Stops the parser at its first error.
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

/** Returns the edits that may correct the parser's first error. */
const editsFor = (text: string, { error, offset, length }: ParseError): ReadonlyArray<Edit> => {
  const code = printParseErrorCode(error)
  const start = text.lastIndexOf("\n", offset - 1) + 1
  const newline = text.indexOf("\n", offset)
  const end = newline === -1 ? text.length : newline
  const line = text.slice(start, end)
  if (insideText.has(code)) return [{ at: offset, end: offset + length, by: '""' }]
  if (code === "UnexpectedEndOfComment") return [{ at: text.length, end: text.length, by: "*/" }]
  // A very long line was written by a program. Only the position of the error is tried.
  const isLong = line.length > longestLine
  const tokens = isLong ? [] : tokensIn(text, start, end)
  const edits: Array<Edit> = []
  const quote = (at: number) => {
    const token = tokens.findLast((one) => one.offset <= at)
    const opens = token === undefined || token.offset === at || token.offset + token.length < at
    const explanation: Words = [opens ? 'a `"` is missing before this' : 'a `"` is missing at the end of this text']
    edits.push({
      at,
      end: at,
      by: '"',
      words: explanation,
      span: opens || token === undefined ? { offset: at, length: 1 } : token,
    })
  }
  const boundaries = new Set([isLong ? offset : end, ...tokens.flatMap((one) => [one.offset, one.offset + one.length])])
  for (const at of boundaries) {
    for (const by of [",", ":", "}", "]", "{", "["]) {
      const explanation = inserted(by, code)
      edits.push({ at, end: at, by, ...(explanation === undefined ? {} : { words: explanation }) })
    }
  }
  // The missing quote may be before a word, after a text, or before punctuation that was read as text.
  for (const piece of tokens) quote(piece.kind === token.string ? piece.offset + piece.length : piece.offset)
  for (let at = start; !isLong && at < end; at++) if (",:]}".includes(text[at] ?? "")) quote(at)
  quote(isLong ? offset : end)
  edits.push({ at: offset, end: offset + Math.max(1, length), by: "" })
  for (const piece of tokens) {
    const written = text.slice(piece.offset, piece.offset + piece.length)
    if (piece.kind !== token.string) {
      const isKey = /^\s*:/.test(text.slice(piece.offset + piece.length, end))
      const explanation = isKey ? words.PropertyNameExpected : undefined
      edits.push({
        at: piece.offset,
        end: piece.offset + piece.length,
        by: `"${written}"`,
        ...(explanation && { words: explanation }),
      })
    }
    if (written.startsWith("#")) edits.push({ at: piece.offset, end, by: "", words: hash, span: piece })
  }
  const plain = isLong ? line : line.replaceAll(/['‘’`“”„«»]/g, '"')
  if (plain !== line) edits.push({ at: start, end, by: plain, words: otherQuotes })
  // The text may continue over several lines to its closing quote.
  const close = text.indexOf('"', end)
  if (code === "UnexpectedEndOfString" && close !== -1) {
    edits.push({ at: end, end: close, by: text.slice(end, close).replaceAll(/\s+/g, " ") })
  }
  return edits
}

/** The message for the parser's first error, and the corrected text. The text is absent if no edit corrects it. */
interface Mended {
  readonly mistake: SyntaxMistake
  readonly edit?: Edit
}

const applied = (text: string, { at, end, by }: Edit): string => text.slice(0, at) + by + text.slice(end)

/** Maximum characters that are parsed for a text, about 100 ms, because a reload must not delay deliveries. */
const budget = 4_000_000
/** The cost of an edit, in the same characters. The whole text is copied for it, which is faster than parsing. */
const costOfEdit = (text: string): number => 500 + text.length / 64

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
    spending.left -= costOfEdit(text) + (next?.offset ?? text.length)
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

/** Maximum mistakes that are reported. */
const most = 20

/** Returns the mistakes of a text that does not parse. */
export const syntaxMistakes = (text: string): ReadonlyArray<SyntaxMistake> => {
  const [opening] = tokensIn(text, 0, text.length)
  if (opening !== undefined && !/^["[{]/.test(text.slice(opening.offset))) {
    const message = "this is not JSON: the file holds one object, { … }"
    return [
      { offset: opening.offset, length: opening.length, message, hint: "`relay init` writes a config to start from" },
    ]
  }
  const found: Array<SyntaxMistake> = []
  const edits: Array<Edit> = []
  const spending: Spending = { left: budget }
  let current = text
  /** Maps a position in the current text to a position in the original text. */
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
