/**
 * The key of an event in a lane: what `order` keeps apart, what a digest is made
 * of, and what a recovery has in common with the failure that it ends.
 */
import type { Entry } from "../event/Entry.ts"
import { asFailure } from "../event/Recovery.ts"
import * as Template from "./Template.ts"

/** Events without any of the fields that a digest is made by belong together too. */
const nothing = "-"

/** The part of a lane's config that makes the key. */
interface Grouping {
  /** A template. */
  readonly key: string
  readonly digest?: object
  readonly resolves?: boolean
}

/** Empty where an event has none of it and order is kept: such events are in nobody's way. */
export const compile = ({ key, digest, resolves }: Grouping): ((entry: Entry) => string) => {
  const { render } = Template.compile(key, "text")
  const keyOf = (entry: Entry) => render(resolves === true ? { ...entry, event: asFailure(entry.event) } : entry)
  return digest === undefined ? keyOf : (entry) => keyOf(entry) || nothing
}
