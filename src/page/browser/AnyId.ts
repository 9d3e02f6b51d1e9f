/** Finds the view for an id of any kind: an event, a place in the log, a dead letter, or an account. */
import { admin } from "./AdminCalls.ts"
import { linkTo } from "./Location.ts"

/** A dead letter's id is the sink and the event's place: `crm:42`. */
const letter = /:([1-9]\d*)$/

/** Returns the link to the event, or to an account's events. An unknown id leads to the event's view, which says so. */
export const linkOf = async (id: string): Promise<string> => {
  const [, sequence] = letter.exec(id) ?? []
  for (const name of sequence === undefined ? [id] : [id, `seq_${sequence}`]) {
    const { events } = await admin.explain(name, false)
    if (events.length > 0) return linkTo("event", name)
  }
  const { events } = await admin.events({ account: id, limit: 1 })
  return events.length > 0 ? linkTo("events", "", { account: id }) : linkTo("event", id)
}
