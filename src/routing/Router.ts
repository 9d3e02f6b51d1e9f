/**
 * The router chooses the sinks of an event.
 *
 * Every matching route applies, and an event reaches each sink once. Patterns are
 * resolved once for each (webhook, event type) pair and cached. So routing an event
 * costs the same with one route as with a thousand. Only `where` reads the event,
 * and only for the routes that have it. `within` compares the time at which the event
 * was received.
 *
 * A sink that resolves alerts also gets the event that ends a failure, through the
 * routes of the failure. It needs no separate route, and comes at any hour: otherwise an
 * alert of the day would stay open if the failure ended at night.
 */
import { Duration, Redacted, Result } from "effect"
import type { Envelope } from "../event/Envelope.ts"
import { eventTypes, failureEndedBy, relayEventTypes } from "../event/EventType.ts"
import { get, type Pointer, parsePointer } from "../event/Pointer.ts"
import {
  type Bytes,
  type DailyHours,
  describeHours,
  type EpochMillis,
  type Millis,
  withinHours,
} from "../event/Quantities.ts"
import type { HmacFactory, SigningSecret } from "../event/Signature.ts"
import * as Jmespath from "../formats/jmespath/Jmespath.ts"
import { attempt } from "../formats/Rendering.ts"
import * as Condition from "./Condition.ts"
import type { Explanation } from "./Explanation.ts"
import * as Foreign from "./Foreign.ts"
import * as Pattern from "./Pattern.ts"

/** A route as the config states it. */
export interface Route {
  readonly name: string
  readonly match: ReadonlyArray<string>
  readonly except: ReadonlyArray<string>
  /** Only deliveries of this webhook match (default: all). */
  readonly webhook?: string
  /** Only events received within these hours match (default: all). */
  readonly within?: DailyHours
  /** Conditions by JSON Pointers into the envelope; all must hold. */
  readonly where: Readonly<Record<string, Condition.Condition>>
  /** An expression over the envelope that must also hold. */
  readonly jmespath?: string
  readonly to: ReadonlyArray<string>
}

export interface Router {
  /**
   * Returns the sinks of an event that was received at this time, in the order of the config. Sinks of routes with
   * `where` or `within` come last. If neither decides, the same result is the same array. Throws `Unrenderable` if an expression of a `where` fails.
   *
   * `exact` returns the envelope with the numbers that a double can't hold. It is called only if they may decide.
   */
  readonly route: (
    webhook: string,
    envelope: Envelope,
    at: EpochMillis,
    exact?: () => Envelope,
  ) => ReadonlyArray<string>
  /** Routes an event without an envelope, so `where` never holds. Without a time, routes apply at any hour. */
  readonly routeType: (webhook: string, type: string, at?: EpochMillis) => ReadonlyArray<string>
  /** Returns every route's verdict on a type, and on the envelope and the time of receipt if they are given. */
  readonly explain: (webhook: string | undefined, type: string, about?: Received) => ReadonlyArray<Explanation>
}

/** An event's envelope and time, if they are known. */
interface Received {
  readonly envelope?: Envelope | undefined
  readonly at?: EpochMillis | undefined
}

/** A route's condition on one field. */
interface Field {
  readonly pointer: Pointer
  readonly holds: Condition.Holds
  /**
   * Reports whether rounding may have changed the result: the condition may differ between this number and the original
   * that was rounded to it.
   */
  readonly mayDiffer: (value: unknown) => boolean
  /** The condition in words. */
  readonly text: string
}

interface Compiled {
  readonly route: Route
  readonly match: ReadonlyArray<Pattern.Pattern>
  readonly except: ReadonlyArray<Pattern.Pattern>
  readonly fields: ReadonlyArray<Field>
  readonly within?: { readonly holds: (at: EpochMillis) => boolean; readonly text: string }
}

/** The routes of a (webhook, type) pair, resolved before an event is read. */
interface Plan {
  readonly always: ReadonlyArray<string>
  readonly conditional: ReadonlyArray<Compiled>
}

/**
 * Maximum cached types per webhook. Types outside the catalogue are cached only up
 * to this number, because a sender may invent any number of them.
 */
const maxRemembered = 10_000

const catalogue: ReadonlySet<string> = new Set([...eventTypes, ...relayEventTypes])

/**
 * Makes each pattern once and matches it once against each known type, because a
 * thousand routes share few patterns.
 */
const patterns = (): ((source: string) => Pattern.Pattern) => {
  const all = new Map<string, Pattern.Pattern>()
  return (source) => {
    const before = all.get(source)
    if (before !== undefined) return before
    const { matches } = Pattern.make(source)
    const known = new Set([...catalogue].filter(matches))
    const made = { source, matches: (type: string) => (catalogue.has(type) ? known.has(type) : matches(type)) }
    all.set(source, made)
    return made
  }
}

const compile = (route: Route, patternOf: (source: string) => Pattern.Pattern): Compiled => ({
  route,
  match: route.match.map(patternOf),
  except: route.except.map(patternOf),
  ...(route.within !== undefined && {
    within: { holds: withinHours(route.within), text: describeHours(route.within) },
  }),
  fields: [
    ...Object.entries(route.where).map(([pointer, condition]) => {
      const doubles = Condition.doublesOf(condition)
      return {
        pointer: parsePointer(pointer) ?? [],
        holds: Condition.make(condition),
        mayDiffer: (value: unknown) => typeof value === "number" && doubles.has(value),
        text: `${pointer} ${Condition.describe(condition)}`,
      }
    }),
    ...(route.jmespath === undefined ? [] : [expressionOf(route.name, route.jmespath)]),
  ],
})

/** Makes a condition on the whole envelope. It comes last, so that cheaper conditions exclude events first. */
const expressionOf = (route: string, text: string): Field => ({
  pointer: [],
  holds: Jmespath.compile(text, `"where.jmespath" of the route ${route}`).holds,
  mayDiffer: () => true,
  text: `jmespath ${text}`,
})

const takes = (compiled: Compiled, webhook: string, type: string): boolean =>
  (compiled.route.webhook === undefined || compiled.route.webhook === webhook) &&
  compiled.match.some((pattern) => pattern.matches(type)) &&
  !compiled.except.some((pattern) => pattern.matches(type))

/** Returns the route with only its sinks that get recoveries, at any hour, or `undefined` if it has none. */
const narrowed = ({ within: _, ...compiled }: Compiled, resolving: ReadonlySet<string>): Compiled | undefined => {
  const to = compiled.route.to.filter((sink) => resolving.has(sink))
  return to.length === 0 ? undefined : { ...compiled, route: { ...compiled.route, to } }
}

const isConditional = ({ fields, within }: Compiled): boolean => fields.length > 0 || within !== undefined

const failing = (compiled: Compiled, envelope: Envelope, exact = () => envelope): Field | undefined =>
  compiled.fields.find(({ pointer, holds, mayDiffer }) => {
    const value = get(pointer, envelope)
    return !holds(mayDiffer(value) ? get(pointer, exact()) : value)
  })

const absent = ({ pointer }: Field, envelope: unknown): string =>
  get(pointer, envelope) === undefined ? "; the event has no such field" : ""

/** Builds the router. `resolving` are the sinks that get recoveries. */
export const make = (routes: ReadonlyArray<Route>, resolving: ReadonlySet<string> = new Set()): Router => {
  const patternOf = patterns()
  const compiled = routes.map((route) => compile(route, patternOf))
  const plans = new Map<string, Map<string, Plan>>()

  /** Returns the routes through which a recovery of this type follows its failure. */
  const following = (webhook: string, type: string): ReadonlyArray<Compiled> => {
    const failure = failureEndedBy(type)
    if (failure === undefined || resolving.size === 0) return []
    return compiled.flatMap((route) =>
      takes(route, webhook, failure) && !route.except.some((pattern) => pattern.matches(type))
        ? (narrowed(route, resolving) ?? [])
        : [],
    )
  }

  const plan = (webhook: string, type: string): Plan => {
    const matching = [...compiled.filter((route) => takes(route, webhook, type)), ...following(webhook, type)]
    return {
      always: [...new Set(matching.filter((_) => !isConditional(_)).flatMap((_) => _.route.to))],
      conditional: matching.filter(isConditional),
    }
  }

  const planFor = (webhook: string, type: string): Plan => {
    let types = plans.get(webhook)
    if (types === undefined) {
      types = new Map()
      plans.set(webhook, types)
    }
    let found = types.get(type)
    if (found === undefined) {
      found = plan(webhook, type)
      if (catalogue.has(type) || types.size < maxRemembered) types.set(type, found)
    }
    return found
  }

  const explain = (compiled: Compiled, webhook: string | undefined, type: string, about: Received): Explanation => {
    const { route, within } = compiled
    const { envelope, at } = about
    const isOutside = within !== undefined && at !== undefined && !within.holds(at)
    const failure = failureEndedBy(type)
    const following = failure && narrowed(compiled, resolving)
    const isFollowing = isOutside || !compiled.match.some((_) => _.matches(type))
    if (following && isFollowing && !compiled.except.some((_) => _.matches(type))) {
      const followed = explain(following, webhook, failure, about)
      if (followed.verdict === "matches") return { ...followed, verdict: "resolves", because: failure }
      if (followed.verdict !== "no pattern matches" && followed.verdict !== "excepted") return followed
    }
    const say = (verdict: Explanation["verdict"], because: string): Explanation => ({
      route: route.name,
      sinks: route.to,
      verdict,
      because,
    })
    if (route.webhook !== undefined && webhook !== undefined && route.webhook !== webhook) {
      return say("other webhook", route.webhook)
    }
    const pattern = compiled.match.find((_) => _.matches(type))
    if (pattern === undefined) return say("no pattern matches", route.match.join(", "))
    const exception = compiled.except.find((_) => _.matches(type))
    if (exception !== undefined) return say("excepted", exception.source)
    if (within !== undefined && isOutside) return say("outside hours", within.text)
    const hours = within === undefined ? "" : ` within ${within.text}`
    const where = compiled.fields.map((_) => _.text).join(" and ")
    if (within !== undefined && at === undefined) {
      return say("matches when", `${where === "" ? "" : `${where} and `}it is received${hours}`)
    }
    if (where === "") return say("matches", `${pattern.source}${hours}`)
    if (envelope === undefined) return say("matches when", where)
    const found = attempt(() => failing(compiled, envelope))
    if (Result.isFailure(found)) return say("where differs", `${found.failure.message}: such an event is quarantined`)
    const field = found.success
    if (field === undefined) return say("matches", `${pattern.source}${hours} where ${where}`)
    return say("where differs", `${field.text}${absent(field, envelope)}`)
  }

  return {
    route: (webhook, envelope, at, exact = () => envelope) => {
      const { always, conditional } = planFor(webhook, envelope.data.type)
      if (conditional.length === 0) return always
      let exactly: Envelope | undefined
      const once = () => {
        exactly ??= exact()
        return exactly
      }
      const holding = conditional.filter(
        (_) => _.within?.holds(at) !== false && failing(_, envelope, once) === undefined,
      )
      return holding.length === 0 ? always : [...new Set([...always, ...holding.flatMap((_) => _.route.to)])]
    },
    routeType: (webhook, type, at) => {
      const { always, conditional } = planFor(webhook, type)
      const holding = conditional.filter(
        ({ fields, within }) => fields.length === 0 && (at === undefined || within?.holds(at) !== false),
      )
      return holding.length === 0 ? always : [...new Set([...always, ...holding.flatMap((_) => _.route.to)])]
    },
    explain: (webhook, type, about = {}) => compiled.map((_) => explain(_, webhook, type, about)),
  }
}

/** Builds the router of a config. */
export const of = (config: {
  readonly routes: ReadonlyArray<Route>
  readonly sinks: ReadonlyArray<{ readonly name: string; readonly alert?: { readonly resolves: boolean } }>
}): Router =>
  make(config.routes, new Set(config.sinks.flatMap(({ name, alert }) => (alert?.resolves === true ? name : []))))

// One version of the config, compiled for ingest: webhooks by path with their signing keys, and the router. It is
// immutable; a reload makes a new table.

/** The parts of a webhook's config that the table reads. */
interface Receiving {
  readonly name: string
  readonly path: string
  readonly ids: ReadonlyArray<string>
  readonly strictId: boolean
  readonly headers: { readonly signature: string; readonly webhookId: string }
  readonly secrets: ReadonlyArray<{
    readonly name: string
    readonly value: Redacted.Redacted<string>
    readonly expires?: EpochMillis
  }>
  readonly maxBody: Bytes
  readonly commitTimeout: Duration.Duration
  readonly sender?: Foreign.Sender
  readonly verifyToken?: Redacted.Redacted<string>
}

/** A webhook, ready to verify deliveries. */
export interface Receiver<Webhook extends Receiving = Receiving> {
  readonly webhook: Webhook
  readonly secrets: ReadonlyArray<SigningSecret>
  /** The header of the signature, or `undefined` if the sender signs nothing. */
  readonly signatureHeader: string | undefined
  /** Set for another sender than the scheduling service; `secrets` is then empty. */
  readonly verify?: Foreign.Verify
  /** Compares a text with the webhook's `verifyToken`, if it has one. */
  readonly isVerifyToken?: (token: string) => boolean
  readonly commitTimeout: Millis
}

/** The webhooks of one path. */
interface Endpoint<Webhook extends Receiving = Receiving> {
  readonly receivers: ReadonlyArray<Receiver<Webhook>>
  /** The largest `maxBody` of its webhooks, because the relay must read a body before it knows its webhook. */
  readonly maxBody: Bytes
}

export interface RoutingTable<Webhook extends Receiving = Receiving> {
  /** By path. */
  readonly endpoints: ReadonlyMap<string, Endpoint<Webhook>>
  readonly router: Router
}

export const makeTable = <Webhook extends Receiving>(
  config: Parameters<typeof of>[0] & { readonly webhooks: ReadonlyArray<Webhook> },
  hmac: HmacFactory,
): RoutingTable<Webhook> => {
  const endpoints = new Map<string, Endpoint<Webhook>>()
  for (const webhook of config.webhooks) {
    const secrets = webhook.secrets.map(({ name, value, expires }) => ({
      name,
      ...(expires === undefined ? {} : { expiresAt: expires }),
      value: Redacted.value(value),
    }))
    const receiver: Receiver<Webhook> = {
      webhook,
      ...(webhook.sender === undefined
        ? {
            secrets: secrets.map(({ value, ...secret }) => ({ ...secret, hmac: hmac(value) })),
            signatureHeader: webhook.headers.signature,
          }
        : {
            secrets: [],
            signatureHeader: Foreign.isUnsigned(webhook.sender.scheme) ? undefined : webhook.sender.scheme.header,
            verify: Foreign.verifierOf(webhook.sender.scheme, secrets),
          }),
      ...(webhook.verifyToken !== undefined && { isVerifyToken: Foreign.equals(Redacted.value(webhook.verifyToken)) }),
      commitTimeout: Duration.toMillis(webhook.commitTimeout),
    }
    const others = endpoints.get(webhook.path)
    endpoints.set(webhook.path, {
      receivers: [...(others?.receivers ?? []), receiver],
      maxBody: Math.max(others?.maxBody ?? 0, webhook.maxBody),
    })
  }
  return { endpoints, router: of(config) }
}

/** Reports whether the request's webhook id, which is not signed, belongs to the webhook. */
const names = ({ webhook }: Receiver, headers: Headers): boolean => {
  const id = headers.get(webhook.headers.webhookId)
  return id !== null && webhook.ids.includes(id)
}

/**
 * Returns the webhooks whose secrets may verify a request: the webhook that its id
 * names. If the id names none, returns all webhooks that don't require their id.
 */
export const candidates = <Webhook extends Receiving>(
  { receivers }: Endpoint<Webhook>,
  headers: Headers,
): ReadonlyArray<Receiver<Webhook>> => {
  const [only, another] = receivers
  if (only !== undefined && another === undefined && !only.webhook.strictId) return receivers
  const named = receivers.find((receiver) => names(receiver, headers))
  return named === undefined ? receivers.filter(({ webhook }) => !webhook.strictId) : [named]
}
