/** SHA-256 of the files of a directory, as `sha256sum -c SHA256SUMS` reads them. */
import { createHash } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

export const file = "SHA256SUMS"

export const make = (directory: string): string =>
  readdirSync(directory)
    .filter((name) => name !== file)
    .sort()
    .map(
      (name) =>
        `${createHash("sha256")
          .update(readFileSync(join(directory, name)))
          .digest("hex")}  ${name}\n`,
    )
    .join("")
