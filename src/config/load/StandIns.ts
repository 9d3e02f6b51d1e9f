/**
 * Texts that stand for the values of variables and files that are absent, so that
 * a config can be checked where its secrets are not: in CI, on a laptop.
 */
import { Schema } from "effect"
import { schemaAt, type Types } from "../schema/ConfiguredTypes.ts"
import { examplesOf } from "../schema/Traits.ts"
import type { StandIn } from "./References.ts"

/** The text with words for what is absent, where the key takes it; else an example of what the key takes. */
export const standIns = (config: unknown, types: Types): StandIn => {
  const at = schemaAt(types)
  return (text, path) => {
    const ast = at(path, config)
    if (ast === undefined) return text
    const isTaken = Schema.is(Schema.make<Schema.Constraint>(ast))
    return [text, ...examplesOf(ast)].find((one) => isTaken(one))
  }
}
