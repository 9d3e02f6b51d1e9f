/** Ways to harm a journal's files while no relay runs on them, drawn at random. */
import {
  copyFileSync,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { DatabaseSync } from "node:sqlite"

export type Random = () => number

/** Damages the files, and describes the damage so that it can be repeated by hand. */
type Harm = (journal: string, older: string, random: Random) => string

const below = (random: Random, limit: number): number => Math.floor(random() * limit)

const change = (file: string, place: number, what: (bytes: Buffer) => void): void => {
  const bytes = readFileSync(file)
  what(bytes.subarray(place))
  writeFileSync(file, bytes)
}

const flip = (file: string, place: number, random: Random): string => {
  const bit = below(random, 8)
  change(file, place, (bytes) => bytes.writeUInt8(bytes.readUInt8() ^ (1 << bit)))
  return `bit ${bit} of byte ${place} of ${file} flipped`
}

const anywhere = (file: string, random: Random): number => below(random, statSync(file).size)

/** Returns a place in an event's bytes, inside the text of a note. */
const inPayload = (file: string, random: Random): number => {
  const bytes = readFileSync(file)
  const from = below(random, bytes.length)
  const found = [bytes.indexOf('"note":', from), bytes.indexOf('"note":')].find((place) => place !== -1)
  return found === undefined ? anywhere(file, random) : found + 8 + below(random, 40)
}

const tables = ["lane", "meta", "retrying", "dead", "hole", "log"] as const

/** Returns a place in a table's root page: cursors, keys, settings. */
const inTable = (file: string, random: Random): readonly [table: string, place: number] => {
  const table = tables[below(random, tables.length)] ?? "lane"
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    const page = Number(db.prepare("PRAGMA page_size").get()?.page_size)
    const root = Number(db.prepare("SELECT rootpage FROM sqlite_master WHERE name = ?").get(table)?.rootpage)
    const start = (root - 1) * page
    const bytes = readFileSync(file).subarray(start, start + page)
    const used = [...bytes.keys()].filter((index) => bytes[index] !== 0)
    return [table, start + (used[below(random, used.length)] ?? 0)]
  } finally {
    db.close()
  }
}

const zeroed = (file: string, random: Random): string => {
  const page = 4_096 * 2 ** below(random, 4)
  const place = below(random, Math.ceil(statSync(file).size / page)) * page
  change(file, place, (bytes) => bytes.subarray(0, page).fill(0))
  return `${page} bytes of ${file} zeroed from ${place}`
}

const truncated = (file: string, random: Random): string => {
  const length = anywhere(file, random)
  truncateSync(file, length)
  return `${file} cut off at ${length}`
}

const deleted = (file: string): string => {
  rmSync(file, { force: true })
  return `${file} deleted`
}

/** The write-ahead log, or the database file if a clean stop left no log. */
const wal = (journal: string): string => (existsSync(`${journal}-wal`) ? `${journal}-wal` : journal)

/** Changes rows as a damaged page would, but at the worst place. */
const query = (journal: string, sql: string): string => {
  const db = new DatabaseSync(journal)
  db.exec(sql)
  db.close()
  return `${sql} in ${journal}`
}

const harms: ReadonlyArray<Harm> = [
  (journal, _, random) => flip(journal, anywhere(journal, random), random),
  (journal, _, random) => flip(journal, inPayload(journal, random), random),
  (journal, _, random) => {
    const [table, place] = inTable(journal, random)
    return `${flip(journal, place, random)} (table ${table})`
  },
  (journal, _, random) => flip(wal(journal), anywhere(wal(journal), random), random),
  (journal, _, random) => flip(wal(journal), inPayload(wal(journal), random), random),
  (journal, _, random) => zeroed(journal, random),
  (journal, _, random) => zeroed(wal(journal), random),
  (journal, _, random) => truncated(journal, random),
  (journal, _, random) => truncated(wal(journal), random),
  (journal) => deleted(wal(journal)),
  (journal) => deleted(journal),
  (journal, _, random) => flip(`${journal}-mark`, anywhere(`${journal}-mark`, random), random),
  (journal, _, random) => (random() < 0.5 ? deleted(`${journal}-mark`) : deleted(`${journal}-shm`)),
  (journal, older) => {
    copyFileSync(older, journal)
    return `${journal} replaced by an older copy`
  },
  (journal, older) => {
    copyFileSync(older, journal)
    rmSync(`${journal}-wal`, { force: true })
    return `${journal} replaced by an older copy, its log deleted`
  },
  (journal) => {
    if (!existsSync(`${journal}-wal`)) return "nothing: there is no log to swap with"
    renameSync(journal, `${journal}-swap`)
    renameSync(`${journal}-wal`, journal)
    renameSync(`${journal}-swap`, `${journal}-wal`)
    return `${journal} and its log swapped`
  },
  (journal) => query(journal, "UPDATE lane SET cursor = cursor + 100 WHERE name = 'late'"),
  (journal) => query(journal, "DELETE FROM log WHERE first = (SELECT max(first) FROM log)"),
  // No later event takes the lanes past it.
  (journal) =>
    query(journal, "UPDATE log SET bytes = zeroblob(length(bytes)) WHERE first = (SELECT max(first) FROM log)"),
  (journal, _, random) => {
    const [table, place] = inTable(journal, random)
    const noise = Buffer.from(Array.from({ length: 16 }, () => below(random, 256)))
    change(journal, place, (bytes) => noise.copy(bytes))
    return `16 bytes of ${journal} overwritten from ${place} (table ${table})`
  },
]

/** The `number`th harm of a run: each kind comes in turn. */
export const harm = (number: number, journal: string, older: string, random: Random): string =>
  harms[number % harms.length]?.(journal, older, random) ?? ""
