/** The journal on SQLite: a file on this machine, and the default. */
import { Effect, Schema } from "effect"
import type { JournalType } from "../JournalType.ts"
import { lockOf, SqliteConfig } from "./SqliteConfig.ts"

/** The type as `Journals.ts` lists it. */
export const Sqlite: JournalType<SqliteConfig> = {
  config: SqliteConfig,
  ofFile: (path) => Schema.decodeUnknownSync(SqliteConfig)(path === undefined ? {} : { path }),
  copying: async () => {
    const [{ source }, { target }] = await Promise.all([
      import("./copy/SqliteCopySource.ts"),
      import("./copy/SqliteCopyTarget.ts"),
    ])
    return { source, target }
  },
  load: () => import("./SqliteJournal.ts"),
  inspect: ({ path }) =>
    Effect.map(
      Effect.promise(() => import("./file/OwnFiles.ts")),
      (files) => {
        const message = files.problem(path) ?? files.mountedAlone(path)
        return message === undefined ? [] : [{ verdict: "wrong", message }]
      },
    ),
  identity: ({ path }) => path,
  file: ({ path, maxSize, minFree }) => ({ path, lock: lockOf(path), maxSize, minFree }),
}
