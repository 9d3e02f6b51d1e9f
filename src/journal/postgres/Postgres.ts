/** The journal on PostgreSQL: one for several relays. */
import { Effect, Redacted } from "effect"
import type { JournalType } from "../JournalType.ts"
import { nameOf, PostgresConfig } from "./connection/PostgresConfig.ts"

/** The type `postgres`, for the list of journals. */
export const Postgres: JournalType<PostgresConfig> = {
  config: PostgresConfig,
  load: () => import("./PostgresJournal.ts"),
  identity: (config) => `${Redacted.value(config.url)} ${config.schema} ${nameOf(config)}`,
  live: ["password", "tls"],
  copying: async () => {
    const [{ source }, { target }] = await Promise.all([
      import("./copy/PostgresCopySource.ts"),
      import("./copy/PostgresCopyTarget.ts"),
    ])
    return { source, target }
  },
  inspect: (config) =>
    Effect.flatMap(
      Effect.promise(() => import("./DatabaseInspection.ts")),
      ({ inspect }) => inspect(config),
    ),
}
