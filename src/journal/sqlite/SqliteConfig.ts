/** The keys of `"journal"` with the type `sqlite`. */
import { Effect, Schema } from "effect"
import { Units } from "../../config/schema/Units.ts"

const defaultPath = "./data/journal.db"

export const SqliteConfig = Schema.Struct({
  path: Schema.String.check(
    Schema.makeFilter((text: string) => text !== "" || "this can't be empty", {
      expected: "text in double quotes",
      toJsonSchema: () => ({ minLength: 1 }),
    }),
  )
    .annotate({ description: "The journal's file; its directory is made when it is missing", default: defaultPath })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed(defaultPath))),
  retention: Units.duration.or("7 days", "How long delivered events stay, for `replay`; what is pending always stays"),
  maxSize: Units.bytes.or("10 GiB", "The journal's largest size; when it is reached the receiver answers 503"),
  minFree: Units.bytes.or("256 MiB", "Space that must stay free on the disk; below it the receiver answers 503"),
  duplicates: Schema.Struct({
    age: Units.duration.or("24 hours", "How long a delivery is remembered"),
    count: Schema.Int.check(
      Schema.isBetween({ minimum: 1, maximum: 100_000_000 }, { expected: "a whole number from 1 to 100000000" }),
    )
      .annotate({ description: "How many deliveries are remembered", default: 1_000_000 })
      .pipe(Schema.withDecodingDefaultKey(Effect.succeed(1_000_000))),
  })
    .annotate({ description: "A delivery that comes twice within this window is accepted and not relayed again" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
})

export type SqliteConfig = typeof SqliteConfig.Type
