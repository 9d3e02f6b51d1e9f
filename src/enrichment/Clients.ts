/**
 * Client details from the sender's API: the fields that deliveries leave out of
 * client objects (webhook interface, sections 2.3 and 4.2).
 *
 * **Guarantee.** Details are only in this cache, for its lifetime at most, and in
 * the messages of a sink that is configured to get them. They are never journaled,
 * logged or shown. At most 64 KiB of a response are read, no redirect is followed,
 * and a record of another client is refused.
 *
 * How the API authenticates is not published, so the headers are configured.
 */
import { Cache, Clock, Duration, Effect, Exit, Redacted, Result, Schema, type Scope, Semaphore } from "effect"
import type { ClientsConfig, LaneConfig } from "../config/Config.ts"
import * as Envelope from "../event/Envelope.ts"
import type { Entry } from "../event/Event.ts"
import * as Monotonic from "../event/Monotonic.ts"
import * as Pointer from "../event/Pointer.ts"
import { rounds } from "../event/Rounds.ts"
import * as Template from "../formats/Template.ts"
import { escapeUrl } from "../formats/Template.ts"
import * as Pattern from "../routing/Pattern.ts"
import * as HttpTransport from "../runtime/HttpTransport.ts"
import { drain, ofTheWay } from "../runtime/HttpTransport.ts"
import {
  failed,
  misconfigured,
  type Sink,
  type SinkError,
  throttled,
  unacceptable,
  withoutAnswer,
} from "../sinks/Sink.ts"

/** The fields that deliveries leave out. Empty if the client has none. */
export const fields = ["first_name", "last_name", "email", "phone"] as const
/** The details of a client; a field that the API has no value for is empty. */
export type ClientDetails = Readonly<Record<(typeof fields)[number], string>>

/** Characters of an id at most: it goes into a URL and into the cache. */
const longestId = 256

/** The reason for missing details. The message contains neither the id nor the response. */
export class ClientsError extends Schema.TaggedError<ClientsError>()("ClientsError", {
  /** `unknown`: the client doesn't exist. `refused`: the config must be changed. `failed`: it may work later. */
  reason: Schema.Literals(["unknown", "refused", "failed"]),
  message: Schema.String,
  /** Milliseconds that the API asks to wait. */
  retryAfter: Schema.optionalKey(Schema.Number),
}) {}

/** Looks clients up. */
export interface Clients {
  /** From the cache, or by one request for all that ask at the same time; within `timeout` in any case. */
  readonly get: (id: string) => Effect.Effect<ClientDetails, ClientsError>
  /** Sends these headers from now on. */
  readonly renew: (headers: ClientsConfig["headers"]) => void
  /** How many clients are in the cache. */
  readonly size: Effect.Effect<number>
}

const ownAuthorities = "NODE_EXTRA_CA_CERTS names authorities of one's own"
/** Milliseconds to wait after a 429 that names no time. */
const usualWait = 5_000
const isSeconds = (text: string): boolean => /^[1-9]\d{0,3}$/.test(text)

const field = Schema.optionalKey(Schema.NullOr(Schema.String))
const Client = Schema.fromJsonString(
  Schema.Struct({
    id: Schema.optionalKey(Schema.String),
    first_name: field,
    last_name: field,
    email: field,
    phone: field,
  }),
)
const decode = Schema.decodeUnknownEffect(Client)

/** Waits so that requests are at least `interval` milliseconds apart. Who is interrupted while it waits takes no turn. */
const paced = (interval: number) => {
  const turn = Semaphore.makeUnsafe(1)
  let next = 0
  return Effect.flatMap(Clock.Clock, (clock) => {
    const now = () => Monotonic.millis(clock)
    const wait = Effect.suspend(() => Effect.sleep(Duration.millis(Math.max(0, next - now()))))
    const take = Effect.sync(() => {
      next = Math.max(now(), next) + interval
    })
    return turn.withPermit(Effect.andThen(wait, take))
  })
}

const headersOf = (headers: ClientsConfig["headers"]): Readonly<Record<string, string>> => ({
  accept: "application/json",
  "user-agent": HttpTransport.userAgent,
  ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, Redacted.value(value)])),
})

/** Opens a cache over the sender's API, for the scope. */
export const make = Effect.fnUntraced(function* (config: ClientsConfig): Effect.fn.Return<Clients, never, Scope.Scope> {
  const { baseUrl, headers, timeout, concurrency, rateLimit, cache } = config
  const fetch = yield* HttpTransport.make()
  const slots = yield* Semaphore.make(concurrency)
  const wait = rateLimit === undefined ? Effect.void : paced(Duration.toMillis(rateLimit.per) / rateLimit.events)
  let sent = headersOf(headers)
  const way = ofTheWay(baseUrl)
  const fail = (reason: ClientsError["reason"], message: string) =>
    Effect.fail(new ClientsError({ reason, message: `client details: ${message}` }))

  const unreached = (failure: HttpTransport.Failure) => {
    const why = HttpTransport.passing[failure]
    return why === undefined
      ? fail(
          "refused",
          `no TLS with the API${way} (${failure}): check "clients.baseUrl" and the clock; ${ownAuthorities}`,
        )
      : fail("failed", `the API can't be reached${way}: ${why}`)
  }

  const exchange = async (id: string, abort: AbortController) => {
    const url = `${baseUrl}/v1/clients/${escapeUrl(id)}`
    const response = await fetch(url, { headers: sent, signal: abort.signal })
    const wait = response.headers.get("retry-after") ?? ""
    return { status: response.status, wait, body: Buffer.concat(await drain(response, abort)).toString("utf8") }
  }

  const request = (id: string) =>
    Effect.callback<Awaited<ReturnType<typeof exchange>>, ClientsError>((resume) => {
      const abort = new AbortController()
      exchange(id, abort).then(
        (answer) => resume(Effect.succeed(answer)),
        (error) => resume(unreached(HttpTransport.failureOf(error))),
      )
      return Effect.sync(() => abort.abort())
    })

  const lookup = Effect.fnUntraced(function* (id: string) {
    yield* wait
    const { status, wait: asked, body } = yield* request(id)
    if (status === 404 || status === 410) return yield* fail("unknown", "the API knows no such client")
    if (status === 401 || status === 403) {
      return yield* fail("refused", `the API answers ${status}${way}; check "clients.headers"`)
    }
    if (status === 429 || (status === 503 && isSeconds(asked))) {
      const message = `client details: the API answers ${status}${way}`
      const retryAfter = isSeconds(asked) ? Number(asked) * 1_000 : usualWait
      return yield* new ClientsError({ reason: "failed", message, retryAfter })
    }
    if (status !== 200) return yield* fail("failed", `the API answers ${status}${way}`)
    const noClient = fail("failed", 'the API\'s answer is no client; check "clients.baseUrl"')
    const client = yield* decode(body).pipe(Effect.catch(() => noClient))
    if (fields.every((name) => client[name] === undefined)) return yield* noClient
    if (client.id !== undefined && client.id !== id) {
      return yield* fail("failed", "the API answered with another client")
    }
    const { first_name, last_name, email, phone } = client
    return {
      first_name: first_name ?? "",
      last_name: last_name ?? "",
      email: email ?? "",
      phone: phone ?? "",
    } satisfies ClientDetails
  })

  const known = yield* Monotonic.measured(() =>
    Cache.makeWith((id: string) => slots.withPermit(lookup(id)), {
      capacity: cache.entries,
      // A failure is not cached.
      timeToLive: (exit) => (Exit.isSuccess(exit) ? cache.lifetime : Duration.zero),
    }),
  )
  // The cache removes an expired entry only when it is requested again, or here.
  const expire = Monotonic.measured(() => Effect.map(Cache.keys(known), (keys) => void [...keys]))
  const expireEvery = Duration.max(Duration.seconds(1), Duration.divideUnsafe(cache.lifetime, 10))
  yield* Effect.forkScoped(Effect.delay(rounds("forgetting client details", expire, expireEvery), expireEvery))

  return {
    get: (id) =>
      (id.length > longestId
        ? fail("unknown", `an id has ${longestId} characters at most`)
        : Monotonic.measured(() => Cache.get(known, id))
      ).pipe(
        // This includes the wait for a turn: all events of a sink share its one deadline.
        Effect.timeoutOrElse({
          duration: timeout,
          orElse: () => fail("failed", `the API did not answer within ${Duration.format(timeout)}`),
        }),
      ),
    renew: (headers) => {
      sent = headersOf(headers)
    },
    size: Cache.size(known),
  }
})

// A sink whose events have the client's details, beside the envelope's own fields:
// `{{/client/email}}`.
//
// **Guarantee.** The stored event stays as it was signed. The details are added to a
// copy that only the sink gets. They are fetched within the attempt of one lane, so
// no other lane waits for them. A receiver's answer to them may repeat them, so it
// is not kept.

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
    ([pattern, pointer]) => [Pattern.make(pattern), Pointer.parsePointer(pointer) ?? []] as const,
  )
  return (entry: Entry): string | undefined => {
    // Only the scheduling service has clients.
    if (entry.event.foreign !== undefined) return undefined
    const found = compiled.find(([pattern]) => pattern.matches(entry.event.type))
    const envelope = found && Result.getOrUndefined(Envelope.decode(entry.event.body))
    if (found === undefined || envelope === undefined) return undefined
    const id = Pointer.get(found[1], envelope)
    return typeof id === "string" && id !== "" ? id : undefined
  }
}

/** `sink` with details from `clients`. An event without a client is sent unchanged. */
export const enriched = (sink: Sink, clients: Clients, { events }: ClientsConfig, without: WithoutDetails): Sink => {
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
