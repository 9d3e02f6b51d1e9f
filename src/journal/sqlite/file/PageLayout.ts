/** The layout of the pages of SQLite's file format. */

/** Kinds of tree pages, by first byte. */
export const kinds = { indexInterior: 2, tableInterior: 5, indexLeaf: 10, tableLeaf: 13 } as const

/** A range of bytes; the end is excluded. */
type Range = readonly [from: number, to: number]

/** The part of a row that is in overflow pages. */
export interface Chain {
  readonly first: number
  readonly bytes: number
}

export interface PageLayout {
  /** Bytes that no row uses, except the first four of each free block. */
  readonly free: ReadonlyArray<Range>
  /** The pages below it. */
  readonly children: ReadonlyArray<number>
  readonly chains: ReadonlyArray<Chain>
}

/** Reads a variable-length integer. No row of ours needs more than 53 bits. */
export const varint = (bytes: Buffer, at: number): readonly [value: number, next: number] => {
  let value = 0
  for (let index = 0; index < 8; index++) {
    const byte = bytes[at + index] ?? 0
    value = value * 128 + (byte & 0x7f)
    if (byte < 0x80) return [value, at + index + 1]
  }
  return [value * 256 + (bytes[at + 8] ?? 0), at + 9]
}

/** Returns the number of a row's bytes that are in its tree page; the others are in overflow pages. */
export const localBytes = (length: number, isTable: boolean, usable: number): number => {
  const most = isTable ? usable - 35 : Math.floor(((usable - 12) * 64) / 255) - 23
  if (length <= most) return length
  const least = Math.floor(((usable - 12) * 32) / 255) - 23
  const wanted = least + ((length - least) % (usable - 4))
  return wanted <= most ? wanted : least
}

const endOf = (
  page: Buffer,
  start: number,
  kind: number,
  usable: number,
): { readonly end: number; readonly chain?: Chain } => {
  const isTable = kind === kinds.tableLeaf || kind === kinds.tableInterior
  const key = kind === kinds.indexInterior || kind === kinds.tableInterior ? start + 4 : start
  const [length, afterLength] = varint(page, key)
  if (kind === kinds.tableInterior) return { end: afterLength }
  const from = isTable ? varint(page, afterLength)[1] : afterLength
  const local = localBytes(length, isTable, usable)
  const end = from + local
  if (local === length) return { end: Math.max(end, start + 4) }
  if (end + 4 > usable) return { end: end + 4 }
  return { end: end + 4, chain: { first: page.readUInt32BE(end), bytes: length - local } }
}

/** Returns the free blocks of a page, or `undefined` if their chain is damaged. */
const freeBlocks = (page: Buffer, header: number, usable: number): ReadonlyArray<Range> | undefined => {
  const blocks: Array<Range> = []
  let last = 0
  for (let at = page.readUInt16BE(header + 1); at !== 0; at = page.readUInt16BE(at)) {
    if (at < last || at + 4 > usable) return undefined
    const size = page.readUInt16BE(at + 2)
    last = at + size
    if (size < 4 || last > usable) return undefined
    blocks.push([at, last])
  }
  return blocks
}

/** Reports whether some ranges share a byte. */
const overlap = (ranges: ReadonlyArray<Range>): boolean => {
  const sorted = ranges.toSorted(([a], [b]) => a - b)
  return sorted.some(([from], index) => from < (sorted[index - 1]?.[1] ?? 0))
}

/** Returns the layout of a tree page whose header is at `header`, or `undefined` if it is not a sound tree page. */
export const layoutOf = (page: Buffer, header: number, usable: number): PageLayout | undefined => {
  const kind = page[header] ?? 0
  if (!Object.values<number>(kinds).includes(kind)) return undefined
  const isInterior = kind === kinds.indexInterior || kind === kinds.tableInterior
  const pointers = header + (isInterior ? 12 : 8)
  const count = page.readUInt16BE(header + 3)
  const gap = pointers + 2 * count
  const content = page.readUInt16BE(header + 5) || 65_536
  const blocks = freeBlocks(page, header, usable)
  if (gap > content || content > usable || blocks === undefined) return undefined
  const children: Array<number> = []
  const chains: Array<Chain> = []
  const used: Array<Range> = [[0, content], ...blocks]
  for (let index = 0; index < count; index++) {
    const start = page.readUInt16BE(pointers + 2 * index)
    if (start + 4 > usable) return undefined
    const { end, chain } = endOf(page, start, kind, usable)
    if (end > usable) return undefined
    used.push([start, end])
    if (isInterior) children.push(page.readUInt32BE(start))
    if (chain !== undefined) chains.push(chain)
  }
  if (overlap(used)) return undefined
  if (isInterior) children.push(page.readUInt32BE(header + 8))
  return { free: [[gap, content], ...blocks.map(([from, to]): Range => [from + 4, to])], children, chains }
}
