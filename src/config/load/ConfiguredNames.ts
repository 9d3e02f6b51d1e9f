/** The names that a config gives its sinks and webhooks, for completions: nothing is resolved, decoded or checked. */
import { Effect } from "effect"
import { parse } from "../diagnostics/Source.ts"
import { fields } from "../Fields.ts"
import { read, readDefault } from "./ConfigText.ts"
import type { Environment } from "./References.ts"

/** Empty where the config can't be read. */
export const namesIn = Effect.fnUntraced(
  function* (part: "sinks" | "webhooks", file: string | undefined, options: Environment) {
    const found = file === undefined ? yield* readDefault(options) : { file, text: yield* read(file, options) }
    return Object.keys(fields(fields(parse(found.file, found.text ?? "", () => false).value)[part]))
  },
  Effect.orElseSucceed((): ReadonlyArray<string> => []),
)
