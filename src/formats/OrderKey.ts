/**
 * The key of an event in a lane: what `order` keeps apart, what a digest is made
 * of, and what a recovery has in common with the failure that it ends.
 */
import type { LaneConfig } from "../config/Config.ts"
import type { Entry } from "../event/Entry.ts"
import { asFailure } from "../event/Recovery.ts"
import * as Template from "./Template.ts"

/** Events without any of the fields that a digest is made by belong together too. */
const nothing = "-"

/** Empty where an event has none of it and order is kept: such events are in nobody's way. */
export const compile = ({
  key,
  digest,
  resolves,
}: Pick<LaneConfig, "key" | "digest" | "resolves">): ((entry: Entry) => string) => {
  const { render } = Template.compile(key, "text")
  const keyOf = (entry: Entry) => render(resolves === true ? { ...entry, event: asFailure(entry.event) } : entry)
  return digest === undefined ? keyOf : (entry) => keyOf(entry) || nothing
}
