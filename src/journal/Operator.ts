/** The name of the client that requests a change. It is recorded with each event that is dropped, replayed or moved. */
import { Context } from "effect"

export const Operator = Context.Reference<string>("relay/journal/Operator", { defaultValue: () => "the relay" })
