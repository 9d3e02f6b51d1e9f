import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { File, type FileConfig } from "../../../src/sinks/file/File.ts"
import { sinkContract } from "../../contract/sinkContract.ts"
import { directory } from "../../lib/directory.ts"
import { bodies } from "../../lib/lines.ts"

const config = (path: string): FileConfig => ({ path, format: "raw", rotate: { daily: false } })

/** Open file descriptors of this process for files below a directory. */
const descriptors = (root: string): number =>
  readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(root)
    } catch {
      return false
    }
  }).length

const wrongAt = (make: (root: string) => string) => Effect.flatMap(directory, (root) => File.open(config(make(root))))

sinkContract("the file sink", {
  ofType: { type: "file", config: { path: "./events.ndjson" } },
  make: Effect.map(directory, (root) => {
    const path = join(root, "deep", "events.ndjson")
    return {
      open: File.open(config(path)),
      // A settled batch is in the file, so there is nothing to wait for.
      received: () => Effect.sync(() => bodies(readFileSync(path))),
      held: Effect.sync(() => descriptors(root)),
    }
  }),
  wrong: {
    "a path that is a directory": [
      wrongAt((root) => root),
      "SinkMisconfigured",
      [/relay-test-\w+ can't be written/, /directory; name a file/],
    ],
    "a directory that is a file": [
      wrongAt((root) => {
        writeFileSync(join(root, "file"), "")
        return join(root, "file", "events.ndjson")
      }),
      "SinkMisconfigured",
      [/events\.ndjson can't be written/, /is a file, not a directory/],
    ],
    "a name that is too long": [wrongAt((root) => join(root, "n".repeat(300))), "SinkMisconfigured", [/too long/]],
    "a directory among the files that are rotated away": [
      wrongAt((root) => {
        mkdirSync(join(root, "events.ndjson"))
        return join(root, "events.ndjson")
      }),
      "SinkMisconfigured",
      [/events\.ndjson can't be written/],
    ],
  },
})
