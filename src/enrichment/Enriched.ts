/**
 * A sink whose events have the client's details, beside the envelope's own fields:
 * `{{/client/email}}`.
 *
 * **Guarantee.** The stored event stays as it was signed. The details are added to a
 * copy that only the sink gets. They are fetched within the attempt of one lane, so
 * no other lane waits for them. A receiver's answer to them may repeat them, so it
 * is not kept.
 */
import { Effect, Result } from "effect"
import type { ClientsConfig, LaneConfig } from "../config/Config.ts"
import type { Entry } from "../event/Entry.ts"
import * as Envelope from "../event/Envelope.ts"
import * as Pointer from "../event/Pointer.ts"
import * as Template from "../formats/Template.ts"
import * as Pattern from "../routing/Pattern.ts"
import {
  failed,
  misconfigured,
  type Sink,
  type SinkError,
  throttled,
  unacceptable,
  withoutAnswer,
} from "../sinks/Sink.ts"
import type { ClientDetails, Clients, ClientsError } from "./Clients.ts"

/** The choices when the details are not available. */
export type WithoutDetails = NonNullable<LaneConfig["enrich"]>

/** Clients of a digest are looked up only for events that the message may show: the first and the last. */
const shown = 20

const utf8 = new TextEncoder()
const brace = "}".charCodeAt(0)

/**
 * Adds the details as `client`; a field of that name is not the sender's (interface, section 2.1).
 * They are appended as text: of a field that occurs twice the last one counts, and the body need not
 * be serialized again, however deeply it is nested.
 */
const withDetails = (entry: Entry, client: ClientDetails): Entry => {
  const { body } = entry.event
  const open = body.subarray(0, body.lastIndexOf(brace))
  return {
    ...entry,
    event: { ...entry.event, body: Buffer.concat([open, utf8.encode(`,"client":${JSON.stringify(client)}}`)]) },
  }
}

const failureOf = ({ reason, message, retryAfter }: ClientsError, without: WithoutDetails): SinkError | undefined => {
  // A client that does not exist will not exist later either.
  if (without === "deliver" || (without === "wait" && reason === "unknown")) return undefined
  if (without === "deadLetter") return unacceptable(message)
  if (retryAfter !== undefined) return throttled(message, retryAfter)
  return reason === "refused" ? misconfigured(message) : failed(message)
}

/** Finds an event's client id; the first pattern that matches decides. */
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

/** `sink` with details from `clients`. An event without a client is sent unchanged. */
export const over = (sink: Sink, clients: Clients, { events }: ClientsConfig, without: WithoutDetails): Sink => {
  const find = finder(events)
  const enrich = (entry: Entry): Effect.Effect<Entry, SinkError> => {
    const id = find(entry)
    if (id === undefined) return Effect.succeed(entry)
    return clients.get(id).pipe(
      Effect.map((client) => withDetails(entry, client)),
      Effect.catch((error) => {
        const failure = failureOf(error, without)
        return failure === undefined ? Effect.succeed(entry) : Effect.fail(failure)
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
      return Effect.gen(function* () {
        const results = yield* Effect.forEach(
          batch,
          (entry) => Effect.result(asked.has(entry) ? enrich(entry) : Effect.succeed(entry)),
          { concurrency: "unbounded" },
        )
        const failures = new Map<number, SinkError>()
        const kept: Array<readonly [index: number, entry: Entry]> = []
        for (const [index, result] of results.entries()) {
          if (Result.isSuccess(result)) kept.push([index, result.success])
          // An event that will never have details costs only itself.
          else if (result.failure.reason._tag === "DeliveryRejected") failures.set(index, result.failure)
          else return yield* result.failure
        }
        const [first] = failures.values()
        if (kept.length === 0 && first !== undefined) return yield* first
        for (const [at, error] of yield* sink.send(kept.map(([, entry]) => entry))) {
          failures.set(kept[at]?.[0] ?? at, withoutAnswer(error))
        }
        return failures
      }).pipe(Effect.mapError(withoutAnswer))
    },
  }
}
