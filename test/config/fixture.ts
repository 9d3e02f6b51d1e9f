/**
 * A table of sink types that replaces the real one, and a file system in memory. Loading a config is pure except for
 * the files that it reads.
 */
import { Effect, PlatformError, Predicate, Schema } from "effect"
import type { ConfigError } from "../../src/config/diagnostics/Diagnostic.ts"
import { type Loaded, load } from "../../src/config/load/Load.ts"
import type { ConfiguredTypes } from "../../src/config/schema/ConfiguredTypes.ts"
import { eventPatterns } from "../../src/config/schema/Keys.ts"
import { journalTypes } from "../../src/journal/Journals.ts"

export const sinkTypes: ConfiguredTypes = {
  console: { concurrency: 1, config: Schema.Struct({}) },
  file: { concurrency: 1, config: Schema.Struct({ path: Schema.NonEmptyString.annotate({ ownFile: true }) }) },
  chat: {
    concurrency: 1,
    config: Schema.Struct({ resolve: Schema.optionalKey(Schema.Boolean), mute: eventPatterns("Muted events", []) }),
    messages: {
      recoveries: {
        askedBy: "resolve",
        ownKey: "dedupKey",
        isOn: (config) => Predicate.hasProperty(config, "resolve") && config.resolve === true,
        key: () => "{{type}}/{{account_id}}/{{/data/object/id}}",
      },
    },
  },
  http: {
    concurrency: 16,
    config: Schema.Struct({
      url: Schema.RedactedFromValue(Schema.String.check(Schema.isPattern(/^http/u))),
      method: Schema.Literals(["POST", "PUT"]).pipe(Schema.withDecodingDefaultKey(Effect.succeed("POST" as const))),
      headers: Schema.optionalKey(
        Schema.Record(Schema.String, Schema.RedactedFromValue(Schema.String)).annotate({ headerNames: true }),
      ),
      body: Schema.optionalKey(Schema.Unknown.annotate({ template: true })),
      tls: Schema.optionalKey(
        Schema.Record(Schema.String, Schema.String).annotate({ together: ["certificate", "key"] }),
      ),
    }),
    messages: { composes: () => false, with: '"format": "template"' },
  },
}

/** The texts of files by path. `directory` and `denied` are files that can't be read. */
export type Files = Readonly<Record<string, string | Uint8Array | "directory" | "denied">>
const faults = { directory: "BadResource", denied: "PermissionDenied" } as const

export const readFile =
  (files: Files) =>
  (path: string): Effect.Effect<Uint8Array, PlatformError.PlatformError> => {
    const text = files[path]
    if (text === undefined || text === "directory" || text === "denied") {
      return Effect.fail(
        PlatformError.systemError({
          _tag: text === undefined ? "NotFound" : faults[text],
          module: "FileSystem",
          method: "readFile",
          pathOrDescriptor: path,
        }),
      )
    }
    return Effect.succeed(typeof text === "string" ? new TextEncoder().encode(text) : text)
  }

export { journalTypes } from "../../src/journal/Journals.ts"

export const options = (files: Files = {}, env: Readonly<Record<string, string>> = {}) => ({
  sinkTypes,
  journalTypes,
  env,
  readFile: readFile(files),
})

/** Loads `text` as `relay.config.json`. */
export const loadText = (
  text: string,
  env: Readonly<Record<string, string>> = {},
  files: Files = {},
): Effect.Effect<Loaded, ConfigError> =>
  load("relay.config.json", options({ ...files, "relay.config.json": text }, env))

/** A valid config with some parts replaced. Each case is about the replaced part. */
export const config = (parts: Readonly<Record<string, unknown>>): string =>
  JSON.stringify(
    {
      webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "now", value: "correct horse battery" }] } },
      sinks: { audit: { type: "file", path: "./events.ndjson" } },
      routes: [{ name: "everything", match: "**", to: ["audit"] }],
      ...parts,
    },
    null,
    2,
  )
