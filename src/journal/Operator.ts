/** The name of the client that asks the journal for a change, which is recorded with what is dropped, replayed or moved. */
import { Context } from "effect"

export const Operator = Context.Reference<string>("relay/journal/Operator", { defaultValue: () => "the relay" })
