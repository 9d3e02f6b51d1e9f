/**
 * Random texts in every string of an event that an erasure is to remove, and a
 * search for their remains: 16 consecutive bytes.
 */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { sha256 } from "../../src/event/IdempotencyKey.ts"

/** Strings that a receiver, a sender or the relay may fill with a person's data. */
const places = ["name", "middle", "end", "signature", "trace", "problem", "answer", "quoted", "key", "object"] as const

const longest = 32
const shortest = 16

/** Returns the text for a string of an event: 32 hexadecimal digits. */
export const markerOf = (id: string, place: (typeof places)[number] = "name"): string =>
  sha256(`${place} of ${id}`).slice(0, longest)

export const markersOf = (id: string): ReadonlyArray<string> => places.map((place) => markerOf(id, place))

/** Searches the files below a directory for 16 bytes of some events' markers. Returns a text for each find. */
export const remainsIn = (directory: string, ids: ReadonlyArray<string>): ReadonlyArray<string> => {
  const parts = new Map<string, string>()
  for (const id of ids) {
    for (const place of places) {
      const marker = markerOf(id, place)
      for (let at = 0; at + shortest <= longest; at++) parts.set(marker.slice(at, at + shortest), `${place} of ${id}`)
    }
  }
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return files.flatMap(({ parentPath, name }) => {
    const text = readFileSync(join(parentPath, name)).toString("latin1")
    const found = new Set<string>()
    for (const [digits] of text.matchAll(/[0-9a-f]{16,}/g)) {
      for (let at = 0; at + shortest <= digits.length; at++) {
        const what = parts.get(digits.slice(at, at + shortest))
        if (what !== undefined) found.add(`${name}: ${what}`)
      }
    }
    return [...found]
  })
}
