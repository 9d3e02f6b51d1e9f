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
import { Cache, Clock, Duration, Effect, Exit, Redacted, Schema, type Scope, Semaphore } from "effect"
import type { ClientsConfig } from "../config/Config.ts"
import * as Monotonic from "../event/Monotonic.ts"
import { rounds } from "../event/Rounds.ts"
import { escapeUrl } from "../formats/Template.ts"
import * as HttpTransport from "../runtime/HttpTransport.ts"
import { drain, ofTheWay } from "../runtime/HttpTransport.ts"

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
