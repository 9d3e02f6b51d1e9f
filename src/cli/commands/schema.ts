/** `relay schema`: the JSON Schema of the config, for editors and checks. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { jsonSchemaText } from "../../config/schema/JsonSchema.ts"
import { journalTypes } from "../../journal/Journals.ts"
import { sinkTypes } from "../../sinks/SinkTypes.ts"
import { printWhole } from "../support/output.ts"

export const schema = Command.make(
  "schema",
  {},
  Effect.fn(() => printWhole(jsonSchemaText({ sinkTypes, journalTypes }).trimEnd())),
).pipe(
  Command.withExamples([
    { command: "relay schema > relay.schema.json", description: 'Name it as "$schema" in the config for editors' },
  ]),
)
