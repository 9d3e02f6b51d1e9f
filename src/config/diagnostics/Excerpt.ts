/**
 * The line of a config file that a diagnostic shows.
 *
 * **Guarantee.** It holds no secret: every text and number is masked except keys
 * and the value that the diagnostic is about, unless that is a secret. Comments
 * are left out. Masking works on tokens, not on the parsed tree, so it also holds
 * for text that does not parse: there, a key is what stands where a key may, so
 * no part of a text in other quotation marks passes for one.
 */
import { createScanner } from "jsonc-parser"
import type { Diagnostic } from "./Diagnostic.ts"

export type Excerpt = NonNullable<Diagnostic["excerpt"]>

/** A part of a text. */
export interface Span {
  readonly offset: number
  readonly length: number
}

/** The scanner's token kinds: a library's `const enum` can't be imported by name. */
export const token = {
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

/** This may be a secret: a string, a number, or text that the scanner can't read. */
const isText = (kind: number): boolean => kind === token.string || kind === token.number || kind === token.unknown

/** Whether a colon follows, so that the string is a key. */
const colonAhead = (text: string, offset: number): boolean => {
  const colon = /\s*:/y
  colon.lastIndex = offset
  return colon.test(text)
}

/** Whether a word without quotes begins its line or the inside of an object: a key whose quotes were forgotten. */
const isBareKey = (text: string, { offset, end }: Span & { readonly end: number }): boolean =>
  /^[A-Za-z_$][\w$-]*$/.test(text.slice(offset, end)) &&
  /^\s*\{?\s*$/.test(text.slice(text.lastIndexOf("\n", offset - 1) + 1, offset))

/** A text in quotation marks that are none in JSON, on one line: `“listen”`. */
const foreign = /(['‘’`])[^'‘’`\r\n]*['‘’`]|[“”„«»][^“”„«»\r\n]*[“”„«»]/y

/** The end of a text in other quotation marks that begins here; `undefined` where none does. */
const foreignEnd = (text: string, offset: number): number | undefined => {
  foreign.lastIndex = offset
  return foreign.test(text) ? foreign.lastIndex : undefined
}

/** Text that is no JSON, up to a blank, a comma or a bracket: `127.0.0.1:8080` without quotes is one thing. */
const strangeEnd = (text: string, offset: number, end: number): number => {
  const rest = /[^\s,[\]{}"]*/y
  rest.lastIndex = end
  rest.test(text)
  const word = text.slice(offset, rest.lastIndex)
  return /^[A-Za-z_$][\w$-]*:$/.test(word) ? end : rest.lastIndex
}

/** Whether what other quotation marks hold can be a key: a value may hold anything. */
const isForeignKey = (text: string, { offset, end }: { readonly offset: number; readonly end: number }): boolean =>
  /^[“”„«»'‘’`][A-Za-z_$][\w$-]{0,39}[“”„«»'‘’`]$/.test(text.slice(offset, end))

/** A token of a text: where it ends, and whether it is a key. */
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
    // After a forgotten comma a key still begins its line, but not in a text that other quotes hold.
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

/** Binary search: the first of `count` indexes that is beyond. */
export const firstBeyond = (count: number, isBeyond: (index: number) => boolean): number => {
  let [low, high] = [0, count]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isBeyond(middle)) high = middle
    else low = middle + 1
  }
  return low
}

/** In the quotation marks that it has; what has none at either end is none. */
const maskOf = ({ kind, offset, end }: Token, text: string): string => {
  if (kind === token.string) return '"…"'
  return foreignEnd(text, offset) === end ? `${text[offset]}…${text[end - 1]}` : "…"
}

/** The first line of `span`, masked, and the position of `span` in it; where it is shown, of its character at `inside`. */
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
  // A token is a character at least. A config written by a program may be one line, with a finding for each sink.
  const at = beyond(span.offset)
  const last = Math.min(at + 2 * widest, tokens.length - 1)
  for (let index = Math.max(beyond(start), at - 2 * widest); index <= last; index++) {
    const one = tokens[index]
    if (one === undefined || one.offset >= end) break
    const isAt = one.offset === span.offset
    const about = isAt || (one.kind === token.unknown && one.offset < span.offset && span.offset < one.end)
    const hides = isText(one.kind) && !(isAt && showsValue) && !one.isKey
    const written =
      isComment(one.kind) || one.kind === token.lineBreak ? "" : text.slice(one.offset, Math.min(one.end, end))
    const shown = hides ? maskOf(one, text) : written.replaceAll(/[\t\r]/g, " ")
    if (about) underline = { start: line.length, length: shown.length }
    if (isAt && inside > 0 && !hides) underline = { start: line.length + inside, length: 1 }
    line += shown
  }
  const trimmed = line.trimEnd()
  // Nothing stands there where the text ends too early.
  const { start: from, length: underlined } = underline ?? { start: trimmed.length, length: 1 }
  // A span over several lines is underlined to the end of the first.
  const length = span.offset + span.length > end ? trimmed.length - from : underlined
  return crop(trimmed, from, Math.max(1, length))
}

/** Cuts a line that is too wide for a terminal around the span. */
const crop = (line: string, start: number, length: number): Excerpt => {
  if (line.length <= widest) return { text: line, start, length }
  const shown = Math.min(length, widest)
  const from = Math.max(0, Math.min(start - (widest - shown) / 2, line.length - widest))
  const head = from > 0 ? "…" : ""
  const text = `${head}${line.slice(Math.floor(from), Math.floor(from) + widest)}`
  return { text, start: start - Math.floor(from) + head.length, length: shown }
}

const widest = 100

/** Finds where a text is nested deeper than `limit`, because the parser recurses. */
export const tooDeep = (text: string, limit: number): number | undefined => {
  const scanner = createScanner(text, true)
  let depth = 0
  for (let kind: number = scanner.scan(); kind !== token.end; kind = scanner.scan()) {
    if (closing.has(kind)) depth--
    if (opening.has(kind) && ++depth > limit) return scanner.getTokenOffset()
  }
  return undefined
}
