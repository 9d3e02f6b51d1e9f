/** The keys of `"journal"` with the type `sqlite`. */
import { realpathSync } from "node:fs"
import { Effect, Schema } from "effect"
import { countOr, textOr } from "../../config/schema/Keys.ts"
import { Units } from "../../config/schema/Units.ts"
import { orUndefined } from "../../event/Tolerance.ts"
import { searchIds } from "../stream/SearchIdsConfig.ts"

/** Suffixes of the files that the relay and SQLite keep next to the journal's file. SQLite deletes a `-journal` when it opens the file. */
export const filesBeside = [
  "-journal",
  "-wal",
  "-shm",
  "-lock",
  "-lock-journal",
  "-mark",
  "-ballast",
  "-hour",
  "-hour.new",
  "-probe",
  "-index",
  "-index-journal",
  "-index-wal",
  "-index-shm",
]

/** Sizes are in bytes, the retention and the age are durations. */
export const SqliteConfig = Schema.Struct({
  path: textOr("The journal's file. Its directory is created if it is missing", "./data/journal.db", {
    ownFile: true,
    filesBeside,
  }),
  retention: Units.duration.or(
    "7 days",
    "How long delivered events are kept, for `replay`. Pending events are always kept",
  ),
  maxSize: Units.bytes.or("10 GiB", "The journal's maximum size. When it is reached, deliveries get a 503"),
  minFree: Units.bytes.or("256 MiB", "Space that must stay free on the disk. Below it, deliveries get a 503"),
  duplicates: Schema.Struct({
    age: Units.duration.or("24 hours", "How long a delivery is remembered"),
    count: countOr("Maximum number of deliveries that are remembered", 1_000_000, 1, 100_000_000),
  })
    .annotate({ description: "If a delivery arrives twice within this window, it is accepted and not relayed again" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  searchIds,
})

/** Follows a symbolic link: SQLite keeps its files next to the link's target, and so does the relay. */
export const followed = (path: string): string => orUndefined(() => realpathSync(path)) ?? path

/** The file with the counts of the last hour. */
export const hourOf = (path: string): string => `${followed(path)}-hour`

/** The file that a relay keeps locked while it runs on a journal. */
export const lockOf = (path: string): string => `${followed(path)}-lock`

export type SqliteConfig = typeof SqliteConfig.Type
