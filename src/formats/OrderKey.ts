/**
 * The key of an event in a lane: events of one key are kept in order, or put
 * into one digest; a recovery has the key of the failure that it ends.
 */
import type { Entry } from "../event/Entry.ts"
import { asFailure } from "../event/Recovery.ts"
import * as Template from "./Template.ts"

/** The key of digests for events that have none of its fields. */
const nothing = "-"

/** The part of a lane that decides about keys. */
interface Grouped {
  readonly key: Template.Text
  readonly digest?: unknown
  readonly resolves?: boolean
}

/** The key is empty where an event has none: such events keep no order with any other. */
export const compile = ({ key, digest, resolves }: Grouped): ((entry: Entry) => string) => {
  const { render } = Template.compile(key, "key")
  const keyOf = (entry: Entry) => render(resolves === true ? { ...entry, event: asFailure(entry.event) } : entry)
  return digest === undefined ? keyOf : (entry) => keyOf(entry) || nothing
}
