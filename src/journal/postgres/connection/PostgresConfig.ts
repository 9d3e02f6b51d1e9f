/** The keys of `"journal"` with the type `postgres`. */
import { hostname } from "node:os"
import { Duration, Effect, Redacted, Schema } from "effect"
import { countOr, secret, text, textOr } from "../../../config/schema/Keys.ts"
import { Units } from "../../../config/schema/Units.ts"
import { searchIds } from "../../stream/SearchIdsConfig.ts"
import type { ConnectionOptions } from "./Connection.ts"
import { expected, parse } from "./DatabaseUrl.ts"

const reads = Schema.makeFilter(
  (url: string) => {
    const parsed = parse(url)
    return typeof parsed === "string" ? parsed : undefined
  },
  { expected, toJsonSchema: () => ({ minLength: 1 }) },
)

/** The schema of the keys; `docs/reference/journal.md` lists them. */
export const PostgresConfig = Schema.Struct({
  // It may hold a password.
  url: Schema.RedactedFromValue(
    Schema.String.annotate({
      description: "The database's address. Several hosts are one cluster; the relay finds the host that takes writes",
      examples: ["postgres://relay@db.example.com/relay", "postgres://relay@db-1:5432,db-2:5432/relay"],
      shown: false,
    }).check(reads),
  ),
  schema: textOr("The journal's schema in the database. Each journal in a database needs its own", "relay"),
  name: Schema.optionalKey(
    text(
      "This relay's name. It must be unique among the journal's relays, and the same after a restart (default: the host's name)",
    ),
  ),
  password: Schema.optionalKey(secret("The user's password. After a reload, new connections use the new one")),
  tls: Schema.optionalKey(
    Schema.Struct({
      ca: Schema.optionalKey(text("PEM file of the authorities to trust, instead of the system's")),
      certificate: Schema.optionalKey(text("PEM file of the client certificate")),
      key: Schema.optionalKey(secret("PEM file of the client certificate's key, or the PEM text itself")),
    }).annotate({
      together: ["certificate", "key"],
      certificates: true,
      description:
        "Certificates. Each connection reads the files again. `sslmode` in `url` decides whether TLS is used",
    }),
  ),
  pool: countOr("Maximum connections, plus one for appends and one for heartbeats", 8, 1, 100),
  connectTimeout: Units.duration.or("3 seconds", "How long a server may take to let the relay in"),
  retention: Units.duration.or(
    "7 days",
    "How long delivered events are kept, for `replay`. Pending events are always kept",
  ),
  maxSize: Units.bytes.or("10 GiB", "The log's maximum size in the database. When it is reached, deliveries get a 503"),
  duplicates: Schema.Struct({
    age: Units.duration.or("24 hours", "How long a delivery is remembered, across all relays"),
    count: countOr("Approximate number of deliveries that are remembered", 1_000_000, 1, 100_000_000),
  })
    .annotate({ description: "If a delivery arrives twice within this window, it is accepted and not relayed again" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  searchIds,
})
export type PostgresConfig = typeof PostgresConfig.Type

/** This relay's name among the relays (default: the host's name). */
export const nameOf = ({ name }: PostgresConfig): string => name ?? hostname()

/** Returns the connection options of a config. */
export const connectionOf = (config: PostgresConfig): ConnectionOptions => {
  const url = parse(Redacted.value(config.url))
  // The schema has rejected invalid urls.
  if (typeof url === "string") throw new Error(url)
  const { ca, certificate, key } = config.tls ?? {}
  return {
    url,
    password: config.password && Redacted.value(config.password),
    tls: {
      ...(ca !== undefined && { ca }),
      ...(certificate !== undefined && { certificate }),
      ...(key !== undefined && { key: Redacted.value(key) }),
    },
    schema: config.schema,
    applicationName: `relay ${nameOf(config)}`,
    connectTimeout: Duration.toMillis(config.connectTimeout),
  }
}
