/** A running relay for commands: its admin API over HTTP, on a journal in memory. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { type Setup, start } from "../admin/fixture.ts"
import { cli } from "./harness.ts"

let files = 0

/** Starts a relay for commands, and writes its config into the directory. */
export const runningIn = (directory: string) =>
  Effect.fnUntraced(function* (setup: Setup = {}, given?: string | { readonly tokens: unknown }) {
    const admin = yield* start(setup)
    const server = yield* Effect.acquireRelease(
      Effect.sync(() => Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: admin.handle })),
      (server) => Effect.promise(() => server.stop(true)),
    )
    const file = join(directory, `running-${files++}.json`)
    const keys = typeof given === "string" ? { token: given } : given
    const section = { listen: `127.0.0.1:${server.port}`, ...keys }
    // Only the admin part can be read. This user can't read the rest.
    writeFileSync(file, JSON.stringify({ admin: section, webhooks: { a: { secrets: "file:/nonexistent" } } }))
    const ask = (...args: ReadonlyArray<string>) => Effect.promise(() => cli([...args, "-c", file]))
    return { ...admin, ask, file }
  })
