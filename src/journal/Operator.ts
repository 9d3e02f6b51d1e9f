/** Who asks the journal for a change, as it is recorded with what is dropped, replayed or moved. */
import { Context } from "effect"

export const Operator = Context.Reference<string>("relay/journal/Operator", { defaultValue: () => "the relay" })
