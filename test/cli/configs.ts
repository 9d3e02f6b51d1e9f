/** Configs for commands that need no running relay: nothing listens on their ports. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"

export const canary = "canary-secret-0451"

/** Writes a config into the directory; each is a file of its own. */
export const configsIn = (directory: string) => {
  let files = 0
  return (changes: object = {}): string => {
    const file = join(directory, `${files++}.json`)
    const base = {
      listen: "127.0.0.1:1",
      admin: { listen: "127.0.0.1:2" },
      journal: { path: join(directory, "journal.db") },
      webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: canary }] } },
      sinks: { audit: { type: "file", path: join(directory, "audit.ndjson") }, screen: { type: "console" } },
      routes: [
        { name: "everything", match: "**", to: "audit" },
        { name: "failures", match: "**.*_failed", except: "connected_account.*", to: ["audit", "screen"] },
      ],
    }
    writeFileSync(file, JSON.stringify({ ...base, ...changes }))
    return file
  }
}
