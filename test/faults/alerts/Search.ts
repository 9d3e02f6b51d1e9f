/** Looks for words that must not appear anywhere, and reports their places. */
import { readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"

export class Search {
  readonly #words: ReadonlyArray<string>
  readonly #found = new Set<string>()

  constructor(words: ReadonlyArray<string>) {
    this.#words = words
  }

  get found(): ReadonlyArray<string> {
    return [...this.#found]
  }

  text(where: string, text: string): void {
    for (const word of this.#words) if (text.includes(word)) this.#found.add(`"${word}" is in ${where}`)
  }

  /** Searches every file below a directory, byte by byte. With `word`, reports whether any file contains it. */
  files(directory: string, word?: string): boolean {
    let holds = false
    for (const name of readdirSync(directory, { recursive: true, encoding: "utf8" })) {
      const file = join(directory, name)
      if (!statSync(file).isFile()) continue
      const bytes = readFileSync(file)
      if (word !== undefined) holds ||= bytes.includes(word)
      else for (const one of this.#words) if (bytes.includes(one)) this.#found.add(`"${one}" is in ${name}`)
    }
    return holds
  }
}
