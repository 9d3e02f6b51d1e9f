/** `relay schema`: the JSON Schema of the config, for editors and checks. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { printWhole } from "../support/output.ts"
import { lazily } from "../support/Program.ts"

export const schema = Command.make(
  "schema",
  {},
  Effect.fn(function* () {
    const [{ jsonSchemaText }, { sinkTypes }, { journalTypes }] = yield* Effect.all([
      lazily(() => import("../../config/schema/JsonSchema.ts")),
      lazily(() => import("../../sinks/SinkTypes.ts")),
      lazily(() => import("../../journal/Journals.ts")),
    ])
    yield* printWhole(jsonSchemaText({ sinkTypes, journalTypes }).trimEnd())
  }),
).pipe(
  Command.withExamples([
    { command: "relay schema > relay.schema.json", description: 'Name it as "$schema" in the config for editors' },
  ]),
)
