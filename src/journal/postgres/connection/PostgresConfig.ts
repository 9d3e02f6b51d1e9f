/** The keys of `"journal"` with the type `postgres`. */
import { hostname } from "node:os"
import { Duration, Effect, Redacted, Schema } from "effect"
import { countOr, secret, text, textOr } from "../../../config/schema/Keys.ts"
import { Units } from "../../../config/schema/Units.ts"
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
      description:
        "The database's address; several hosts are one cluster, of which the relay finds the one that takes writes",
      examples: ["postgres://relay@db.example.com/relay", "postgres://relay@db-1:5432,db-2:5432/relay"],
      shown: false,
    }).check(reads),
  ),
  schema: textOr("The journal's schema in the database; two journals in one database have two", "relay"),
  name: Schema.optionalKey(
    text(
      "This relay's name, which no other relay of the journal has, and which it keeps when it is started again; the host's unless given",
    ),
  ),
  password: Schema.optionalKey(
    secret("The user's password; a reload changes it for the connections made from then on"),
  ),
  tls: Schema.optionalKey(
    Schema.Struct({
      ca: Schema.optionalKey(text("PEM file of the authorities to trust, instead of the system's")),
      certificate: Schema.optionalKey(text("PEM file of the client certificate")),
      key: Schema.optionalKey(secret("PEM file of the client certificate's key, or the PEM text itself")),
    }).annotate({
      together: ["certificate", "key"],
      certificates: true,
      description: "Certificates; each connection reads the files again. Whether there is TLS, `sslmode` in `url` says",
    }),
  ),
  pool: countOr(
    "Connections at most, beside one for appends and one by which the relays know of each other",
    8,
    1,
    100,
  ),
  connectTimeout: Units.duration.or("3 seconds", "How long a server may take to let the relay in"),
  retention: Units.duration.or("7 days", "How long delivered events stay, for `replay`; what is pending always stays"),
  maxSize: Units.bytes.or(
    "10 GiB",
    "The log's largest size in the database; when it is reached the receiver answers 503",
  ),
  duplicates: Schema.Struct({
    age: Units.duration.or("24 hours", "How long a delivery is remembered, by all relays"),
    count: countOr("How many deliveries are remembered, about", 1_000_000, 1, 100_000_000),
  })
    .annotate({ description: "A delivery that comes twice within this window is accepted and not relayed again" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
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
