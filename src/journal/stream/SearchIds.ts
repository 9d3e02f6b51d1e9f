/**
 * Finds the ids of objects in bodies: texts and whole numbers at the JSON Pointers of `journal.searchIds`.
 *
 * It scans the bytes. That takes a little less time than `JSON.parse`, leaves no garbage, and keeps all digits of
 * a number. The index hashes the ids that a scan finds, and a search checks each
 * candidate by another scan. So both agree on every body, even if it isn't JSON.
 */
import { parsePointer } from "../../event/Pointer.ts"
import { hashIn, hashOf } from "./Record.ts"

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a] as const
const [openObject, closeObject, openList, closeList] = [0x7b, 0x7d, 0x5b, 0x5d] as const

const isSpace = (byte: number | undefined): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** Returns the bytes as a buffer. */
export const view = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/**
 * Returns the position of the closing quote of the string whose opening quote is before `from`. A loop over the
 * bytes would take twice the time in the worker.
 */
const endOfText = (bytes: Buffer, from: number, end: number): number => {
  for (let at = from; ; ) {
    const found = bytes.indexOf(quote, at)
    if (found === -1 || found >= end) return end
    let first = found
    while (bytes[first - 1] === backslash) first--
    if ((found - first) % 2 === 0) return found
    at = found + 1
  }
}

/** Returns the position of the comma or bracket behind a value of an object or a list. */
const endOfValue = (bytes: Buffer, from: number, end: number): number => {
  let depth = 0
  for (let at = from; at < end; at++) {
    const byte = bytes[at]
    if (byte === quote) at = endOfText(bytes, at + 1, end)
    else if (byte === openObject || byte === openList) depth++
    else if (depth === 0 && (byte === comma || byte === closeObject || byte === closeList)) return at
    else if (byte === closeObject || byte === closeList) depth--
  }
  return end
}

/** A step of the pointers: fields of an object, or elements of a list by their index. */
interface Node {
  /** Whether a pointer ends here. */
  isId: boolean
  readonly fields: Array<{ readonly name: Uint8Array; readonly node: Node }>
}

const newNode = (): Node => ({ isId: false, fields: [] })

const isText = (name: Uint8Array, bytes: Uint8Array, from: number, to: number): boolean => {
  if (name.length !== to - from) return false
  for (let index = 0; index < name.length; index++) if (name[index] !== bytes[from + index]) return false
  return true
}

/** Returns the step to a field whose name is at these bytes. */
const fieldAt = ({ fields }: Node, bytes: Uint8Array, from: number, to: number): Node | undefined => {
  for (const { name, node } of fields) if (isText(name, bytes, from, to)) return node
  return undefined
}

const fieldNamed = (node: Node, name: string): Node | undefined => {
  const bytes = Buffer.from(name)
  return fieldAt(node, bytes, 0, bytes.length)
}

/** Returns a text as it was before JSON escaped it. */
const unescaped = (text: string): string => {
  if (!text.includes("\\")) return text
  try {
    return JSON.parse(`"${text}"`)
  } catch {
    return text
  }
}

const isEscaped = (bytes: Uint8Array, from: number, to: number): boolean => {
  for (let at = from; at < to; at++) if (bytes[at] === backslash) return true
  return false
}

/** Gets the bounds of an id in the bytes: a text without its quotes, or a number. */
type Visit = (from: number, to: number) => void

/** Visits a text or a whole number. */
const visitId = (bytes: Buffer, from: number, end: number, visit: Visit): void => {
  if (bytes[from] === quote) {
    visit(from + 1, endOfText(bytes, from + 1, end))
    return
  }
  const value = bytes.toString("latin1", from, endOfValue(bytes, from, end)).trimEnd()
  if (/^-?[0-9]+$/.test(value)) visit(from, from + value.length)
}

/** Visits the ids of a value. Returns a position in the value or behind it. */
const visitValue = (node: Node, bytes: Buffer, from: number, end: number, visit: Visit): number => {
  let at = from
  while (at < end && isSpace(bytes[at])) at++
  if (at >= end) return end
  const isParent = node.fields.length > 0
  if (isParent && bytes[at] === openObject) return visitObject(node, bytes, at + 1, end, visit)
  if (isParent && bytes[at] === openList) return visitList(node, bytes, at + 1, end, visit)
  if (node.isId) visitId(bytes, at, end, visit)
  return at
}

/** Visits the ids of an object whose bracket is before `from`. Returns the position behind the object. */
const visitObject = (node: Node, bytes: Buffer, from: number, end: number, visit: Visit): number => {
  for (let at = from; at < end; at++) {
    if (bytes[at] === closeObject) return at + 1
    if (bytes[at] !== quote) continue
    const name = at + 1
    at = endOfText(bytes, name, end)
    const field =
      fieldAt(node, bytes, name, at) ??
      (isEscaped(bytes, name, at) ? fieldNamed(node, unescaped(bytes.toString("utf8", name, at))) : undefined)
    while (at < end && bytes[at] !== colon) at++
    at = endOfValue(bytes, field === undefined ? at : visitValue(field, bytes, at + 1, end, visit), end) - 1
  }
  return end
}

/** Visits the ids of a list whose bracket is before `from`. Returns the position behind the list. */
const visitList = (node: Node, bytes: Buffer, from: number, end: number, visit: Visit): number => {
  let at = from
  for (let index = 0; at < end && bytes[at] !== closeList; index++) {
    const field = fieldNamed(node, String(index))
    at = endOfValue(bytes, field === undefined ? at : visitValue(field, bytes, at, end, visit), end)
    if (bytes[at] === comma) at++
    else break
  }
  return at + 1
}

/** The JSON Pointers of a config. */
export class SearchIds {
  readonly pointers: ReadonlyArray<string>
  /** A hash of the pointers. */
  readonly hash: number
  readonly #root = newNode()

  /** Texts that are not JSON Pointers find nothing: the config is checked elsewhere. */
  constructor(pointers: ReadonlyArray<string>) {
    this.pointers = pointers
    this.hash = hashOf(JSON.stringify(pointers))
    for (const pointer of pointers) {
      let node = this.#root
      for (const token of parsePointer(pointer) ?? []) {
        const next = fieldNamed(node, token) ?? newNode()
        if (fieldNamed(node, token) === undefined) node.fields.push({ name: Buffer.from(token), node: next })
        node = next
      }
      node.isId = node !== this.#root
    }
  }

  /** Reports whether a body has the id at one of the pointers. */
  has(body: Uint8Array, id: string): boolean {
    const bytes = view(body)
    const wanted = Buffer.from(id)
    let isThere = false
    visitValue(this.#root, bytes, 0, bytes.length, (from, to) => {
      // Bytes are compared, as `hashes` does: a text of bytes that are not UTF-8 would be another one.
      isThere ||= isEscaped(bytes, from, to)
        ? unescaped(bytes.toString("utf8", from, to)) === id
        : isText(wanted, bytes, from, to)
    })
    return isThere
  }

  /** Returns the hashes of a body's ids, each once. `hashOf` returns the hash of an id. */
  hashes(bytes: Buffer, from = 0, end = bytes.length): ReadonlyArray<number> {
    const hashes: Array<number> = []
    visitValue(this.#root, bytes, from, end, (from, to) => {
      const hash = isEscaped(bytes, from, to)
        ? hashOf(unescaped(bytes.toString("utf8", from, to)))
        : hashIn(bytes, from, to)
      if (!hashes.includes(hash)) hashes.push(hash)
    })
    return hashes
  }
}

const isWord = (byte: number | undefined): boolean =>
  byte !== undefined && /[0-9A-Za-z]/.test(String.fromCharCode(byte))

/** The texts that may stand for an id in a body: as it is, and as JSON escapes it. */
export const textsOf = (id: string): ReadonlyArray<string> => [...new Set([id, JSON.stringify(id).slice(1, -1)])]

/** Reports whether a body has the id anywhere, and not as a part of a longer word. */
export const mentions = (body: Uint8Array, id: string): boolean => {
  const bytes = view(body)
  return textsOf(id).some((text) => {
    const { length } = Buffer.from(text)
    for (let at = bytes.indexOf(text); at !== -1; at = bytes.indexOf(text, at + 1)) {
      if (!isWord(bytes[at - 1]) && !isWord(bytes[at + length])) return true
    }
    return false
  })
}
