/** The journal on SQLite: a file on this machine, and the default. */
import type { JournalType } from "../JournalType.ts"
import { lockOf, SqliteConfig } from "./SqliteConfig.ts"

export const Sqlite: JournalType<SqliteConfig> = {
  config: SqliteConfig,
  load: () => import("./SqliteJournal.ts"),
  file: ({ path, maxSize, minFree }) => ({ path, lock: lockOf(path), maxSize, minFree }),
}
