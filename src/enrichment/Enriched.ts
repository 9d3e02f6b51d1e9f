/**
 * A sink whose events carry the client's details: they stand beside the
 * envelope's own fields, as `{{/client/email}}`.
 *
 * **Promise.** What is kept stays as it was signed; the details are put into a
 * copy that goes to the sink and nowhere else. The lane waits for them within
 * its own attempt, so no other lane does.
 */
import { Effect, Result } from "effect"
import type { ClientsConfig, LaneConfig } from "../config/Config.ts"
import type { Entry } from "../event/Entry.ts"
import * as Envelope from "../event/Envelope.ts"
import * as Pointer from "../event/Pointer.ts"
import * as Template from "../formats/Template.ts"
import * as Pattern from "../routing/Pattern.ts"
import {
  DeliveryFailed,
  DeliveryRejected,
  type Reason,
  type Sink,
  SinkError,
  SinkMisconfigured,
} from "../sinks/Sink.ts"
import type { ClientDetails, Clients, ClientsError } from "./Clients.ts"

/** What to do when there are no details to be had. */
export type WithoutDetails = NonNullable<LaneConfig["enrich"]>

/** Of a digest, only events that a message may show are looked up: its first and its last. */
const shown = 20

const utf8 = new TextEncoder()
const brace = "}".charCodeAt(0)

/**
 * The envelope with the details; whatever stood at `client` is not the sender's (interface, section 2.1).
 * They are put behind what is there, as text: of a field that comes twice the last counts, and what
 * is nested too deep to be written anew need not be.
 */
const withDetails = (entry: Entry, client: ClientDetails): Entry => {
  const { body } = entry.event
  const open = body.subarray(0, body.lastIndexOf(brace))
  return {
    ...entry,
    event: { ...entry.event, body: Buffer.concat([open, utf8.encode(`,"client":${JSON.stringify(client)}}`)]) },
  }
}

const reasonOf = ({ reason, message }: ClientsError, without: WithoutDetails): Reason | undefined => {
  // A client that is gone stays gone: waiting would not bring it back.
  if (without === "deliver" || (without === "wait" && reason === "unknown")) return undefined
  if (without === "deadLetter") return new DeliveryRejected({ message })
  return reason === "refused" ? new SinkMisconfigured({ message }) : new DeliveryFailed({ message })
}

/** Where an event's client stands; the first pattern that matches decides. */
const finder = (events: ClientsConfig["events"]) => {
  const compiled = Object.entries(events).map(
    ([pattern, pointer]) => [Pattern.make(pattern), Pointer.parse(pointer) ?? []] as const,
  )
  return (entry: Entry): string | undefined => {
    const found = compiled.find(([pattern]) => pattern.matches(entry.event.type))
    const envelope = found && Result.getOrUndefined(Envelope.decode(entry.event.body))
    if (found === undefined || envelope === undefined) return undefined
    const id = Pointer.get(found[1], envelope)
    return typeof id === "string" && id !== "" ? id : undefined
  }
}

/** `sink` with details from `clients`. An event without a client is sent as it is. */
export const over = (sink: Sink, clients: Clients, { events }: ClientsConfig, without: WithoutDetails): Sink => {
  const find = finder(events)
  const enrich = (entry: Entry): Effect.Effect<Entry, SinkError> => {
    const id = find(entry)
    if (id === undefined) return Effect.succeed(entry)
    return clients.get(id).pipe(
      Effect.map((client) => withDetails(entry, client)),
      Effect.catch((error) => {
        const reason = reasonOf(error, without)
        return reason === undefined ? Effect.succeed(entry) : Effect.fail(new SinkError({ reason }))
      }),
    )
  }
  return {
    ...sink,
    get batch() {
      return sink.batch
    },
    send: (batch) => {
      const asked = new Set(Template.some(batch, shown))
      return Effect.forEach(batch, (entry) => (asked.has(entry) ? enrich(entry) : Effect.succeed(entry)), {
        concurrency: "unbounded",
      }).pipe(Effect.flatMap((enriched) => sink.send(enriched)))
    },
  }
}
