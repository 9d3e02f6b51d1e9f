/** Reads all deliveries from the journal of a relay that has ended. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import * as Maintenance from "../../../src/journal/sqlite/maintenance/Maintenance.ts"

export interface Journaled {
  readonly body: Uint8Array
  readonly signature: string
  readonly sinks: ReadonlyArray<string>
}

/** `directory` holds its `journal.db`. */
export const journaled = async (directory: string): Promise<ReadonlyArray<Journaled>> => {
  const to = join(directory, "salvaged.ndjson")
  await Effect.runPromise(Maintenance.salvage(join(directory, "journal.db"), to))
  return readFileSync(to, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line))
    .filter(({ in: place }) => place === "log")
    .map(({ bodyBase64, signature, sinks }) => ({ body: Buffer.from(bodyBase64, "base64"), signature, sinks }))
}
