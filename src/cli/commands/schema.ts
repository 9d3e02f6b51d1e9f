/** `relay schema`: the JSON Schema of the config, for editors and checks. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { jsonSchemaText } from "../../config/schema/JsonSchema.ts"
import { journalTypes } from "../../journal/Journals.ts"
import { sinkTypes } from "../../sinks/SinkTypes.ts"
import { withExamples } from "../support/flags.ts"
import { printWhole } from "../support/output.ts"

export const schema = Command.make(
  "schema",
  {},
  Effect.fn(() => printWhole(jsonSchemaText({ sinkTypes, journalTypes }).trimEnd())),
).pipe(
  withExamples({
    "relay schema > relay.schema.json": 'Name it as "$schema" in the config for editors',
  }),
)
