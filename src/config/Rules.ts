/**
 * What must hold between the parts of a config, beyond the shape of each.
 *
 * The rules read the resolved JSON and not the decoded config, so a mistake in
 * one part never hides another: everything is told at once. What has the wrong
 * shape is passed over here; the schema has said it already.
 */
import { eventTypes, relayEventTypes } from "../event/EventType.ts"
import * as Pointer from "../event/Pointer.ts"
import * as Template from "../formats/Template.ts"
import * as Pattern from "../routing/Pattern.ts"
import { developmentSecret } from "./Config.ts"
import { didYouMean } from "./Issues.ts"
import { error, type Finding, formatPath, type Path, warning } from "./Source.ts"
import { isLoopback, parseAddress } from "./Words.ts"

type Fields = Readonly<Record<string, unknown>>

const fields = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {}
const items = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

interface Text {
  readonly path: Path
  readonly text: string
}

/** The texts of a key that holds one text or a list of them. */
const texts = (value: unknown, path: Path): ReadonlyArray<Text> =>
  (Array.isArray(value)
    ? value.map((text, index) => [text, [...path, index]] as const)
    : [[value, path] as const]
  ).flatMap(([text, path]) => (typeof text === "string" ? [{ text, path }] : []))

/** The second and later of what must be there once, each with where the first is. */
const repeated = <A extends { readonly path: Path }>(
  all: ReadonlyArray<A>,
  identity: (item: A) => string,
): ReadonlyArray<readonly [again: A, first: A]> => {
  const first = new Map<string, A>()
  return all.flatMap((item) => {
    const earlier = first.get(identity(item))
    if (earlier === undefined) first.set(identity(item), item)
    return earlier === undefined ? [] : [[item, earlier] as const]
  })
}

const webhookRules = (root: Fields, now: number): ReadonlyArray<Finding> => {
  const found: Array<Finding> = []
  const exposed = parseAddress(root.listen ?? "127.0.0.1:8080")
  const receivers: Array<{ readonly path: Path; readonly url: string; readonly id: string }> = []
  for (const [name, value] of Object.entries(fields(root.webhooks))) {
    const webhook = fields(value)
    const at: Path = ["webhooks", name]
    found.push(...nameRules(name, at, "webhook"))
    if (name === "relay") {
      found.push(error(at, 'a webhook can\'t be called "relay"', "the relay's own events carry that name", "key"))
    }
    if (typeof webhook.path === "string") {
      const ids = texts(webhook.id, [...at, "id"])
      const url = webhook.path
      if (ids.length === 0) receivers.push({ path: [...at, "path"], url, id: "" })
      for (const { path, text } of ids) receivers.push({ path, url, id: text })
    }
    const headers = fields(webhook.headers)
    const signature = headers.signature ?? "x-service-signature"
    const webhookId = headers.webhookId ?? "x-service-webhook-id"
    if (typeof signature === "string" && String(webhookId).toLowerCase() === signature.toLowerCase()) {
      found.push(error([...at, "headers"], "the signature and the webhook id can't be in the same header"))
    }
    found.push(...secretRules(items(webhook.secrets).map(fields), [...at, "secrets"], now))
    if (exposed !== undefined && !isLoopback(exposed)) {
      for (const [index, secret] of items(webhook.secrets).map(fields).entries()) {
        if (secret.value !== developmentSecret) continue
        found.push(
          error(
            [...at, "secrets", index, "value"],
            "this is the development secret, which everybody knows, and the relay listens beyond this machine",
            'put the webhook\'s own signing secret here, or let "listen" be 127.0.0.1',
          ),
        )
      }
    }
  }
  for (const [again, first] of repeated(receivers, ({ url, id }) => JSON.stringify([url, id]))) {
    const same = again.id === "" ? "the same path, and neither has an id" : "the same path and id"
    found.push(
      error(again.path, `${formatPath(first.path.slice(0, 2))} has ${same}`, "give each its own path, or its own id"),
    )
  }
  return found
}

const secretRules = (secrets: ReadonlyArray<Fields>, at: Path, now: number): ReadonlyArray<Finding> => {
  const named = secrets.flatMap(({ name }, index) => texts(name, [...at, index, "name"]))
  const twice = repeated(named, ({ text }) => text).map(([again]) =>
    error(again.path, "another secret of this webhook has the same name", "logs tell secrets apart by their names"),
  )
  const expired = secrets.map(({ expires }) => typeof expires === "string" && Date.parse(expires) <= now)
  if (secrets.length > 0 && expired.every(Boolean)) {
    return [
      ...twice,
      warning(at, "every secret here has expired: no delivery will verify", "add the current signing secret", "key"),
    ]
  }
  return [
    ...twice,
    ...expired.flatMap((is, index) =>
      is
        ? [warning([...at, index, "expires"], "this secret has expired and verifies nothing", "it can be taken out")]
        : [],
    ),
  ]
}

/** Names stand in metrics, in the ids of dead letters (`sink:42`) and on the command line. */
const nameRules = (name: string, at: Path, what: string): ReadonlyArray<Finding> => {
  if (name.startsWith("_")) {
    return [
      error(at, `a ${what}'s name can't begin with "_"`, "such names are the relay's own, like _quarantine", "key"),
    ]
  }
  return /^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/.test(name)
    ? []
    : [error(at, `this is no name for a ${what}`, "letters, digits, `_`, `-` and `.`, at most 100", "key")]
}

/** Keys that are templates in every type of sink that has them. */
const templated = ["key", "url", "topic", "headers", "body", "summary", "objectId", "details", "dedupKey"]

/** Every text below a value. */
const deepTexts = (value: unknown, path: Path): ReadonlyArray<Text> => {
  if (typeof value === "string") return [{ path, text: value }]
  if (Array.isArray(value)) return value.flatMap((item, index) => deepTexts(item, [...path, index]))
  return Object.entries(fields(value)).flatMap(([key, item]) => deepTexts(item, [...path, key]))
}

const templateRules = ({ path, text }: Text): ReadonlyArray<Finding> => {
  const problem = Template.problem(text)
  return problem === undefined ? [] : [error(path, problem)]
}

/** A client certificate is two files. */
const tlsRules = (tls: Fields, at: Path): ReadonlyArray<Finding> => {
  const [half] = ["certificate", "key"].filter((key) => tls[key] === undefined)
  return half === undefined || (tls.certificate === undefined && tls.key === undefined)
    ? []
    : [error([...at, half], `the key "${half}" is missing`, '"certificate" and "key" go together')]
}

/** Each file has one writer: two would cut off each other's lines, and the journal would not survive it. */
const fileRules = (root: Fields): ReadonlyArray<Finding> => {
  const journal = texts(fields(root.journal).path ?? "./data/journal.db", ["journal", "path"])
  const files = Object.entries(fields(root.sinks)).flatMap(([name, value]) => {
    const { type, path } = fields(value)
    return type === "file" ? texts(path, ["sinks", name, "path"]) : []
  })
  const plain = (path: string) => path.replaceAll(/\/(\.?\/)+/g, "/").replace(/^\.\//, "")
  return repeated([...journal, ...files], ({ text }) => plain(text)).map(([again, first]) =>
    error(again.path, `${formatPath(first.path)} is the same file`, "give each a file of its own"),
  )
}

const sinkRules = (root: Fields): ReadonlyArray<Finding> => {
  const sinks = fields(root.sinks)
  const adopted: Array<Text> = []
  const found = Object.entries(sinks).flatMap(([name, value]) => {
    const at: Path = ["sinks", name]
    const sink = fields(value)
    const renamed = texts(sink.renamedFrom, [...at, "renamedFrom"])
    adopted.push(...renamed)
    return [
      ...nameRules(name, at, "sink"),
      ...renamed.flatMap(({ path, text }) =>
        Object.hasOwn(sinks, text)
          ? [
              error(
                path,
                `the sink "${text}" still exists, so nothing was renamed`,
                "take this key out, or the other sink",
              ),
            ]
          : [],
      ),
      ...templated.flatMap((key) => deepTexts(sink[key], [...at, key])).flatMap(templateRules),
      ...Object.keys(fields(sink.headers)).flatMap((header) =>
        /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(header)
          ? []
          : [error([...at, "headers", header], "this is no header name", "letters, digits and dashes", "key")],
      ),
      ...tlsRules(fields(sink.tls), [...at, "tls"]),
    ]
  })
  const twice = repeated(adopted, ({ text }) => text).map(([again, first]) =>
    error(again.path, `${formatPath(first.path)} takes over the same sink`, "only one can have what is pending there"),
  )
  return [...found, ...twice]
}

const pointerHint = "`~0` stands for `~` and `~1` for `/`; nothing else follows a `~`"

const patternRules = ({ path, text }: Text): ReadonlyArray<Finding> => {
  const problem = Pattern.problem(text)
  if (problem !== undefined) return [error(path, problem)]
  const pattern = Pattern.make(text)
  const ours = text.startsWith("relay.")
  const types: ReadonlyArray<string> = ours ? relayEventTypes : eventTypes
  if (types.some(pattern.matches)) return []
  const near = nearestPattern(text, types)
  return [
    warning(
      path,
      ours
        ? "this matches none of the relay's own events"
        : `this matches none of the ${eventTypes.length} event types`,
      near === undefined ? undefined : `did you mean "${near}"?`,
    ),
  ]
}

/** The pattern nearest to `given` that does match: its segments, each mended by a type's where it fits none. */
const nearestPattern = (given: string, types: ReadonlyArray<string>): string | undefined => {
  const segments = given.split(".")
  const mended = types.flatMap((type) => {
    const parts = type.split(".")
    if (parts.length !== segments.length) return []
    return [
      parts
        .map((part, index) => {
          const segment = segments[index] ?? part
          return segment === "**" || Pattern.make(segment).matches(part) ? segment : part
        })
        .join("."),
    ]
  })
  return Pattern.nearest(given, [...mended, ...types])
}

const routeRules = (root: Fields): ReadonlyArray<Finding> => {
  const sinks = Object.keys(fields(root.sinks))
  const webhooks = Object.keys(fields(root.webhooks))
  const routes = items(root.routes).map(fields)
  const named = routes.flatMap(({ name }, index) => texts(name, ["routes", index, "name"]))
  return [
    ...repeated(named, ({ text }) => text).map(([again]) =>
      error(again.path, "another route has the same name", "logs and `relay explain` tell routes apart by their names"),
    ),
    ...routes.flatMap((route, index) => {
      const at: Path = ["routes", index]
      const patterns = [...texts(route.match, [...at, "match"]), ...texts(route.except, [...at, "except"])]
      const empty = ["match", "to"].filter((key) => Array.isArray(route[key]) && items(route[key]).length === 0)
      return [
        ...empty.map((key) => error([...at, key], "this list is empty, so the route does nothing")),
        ...patterns.flatMap(patternRules),
        ...sinkNames(texts(route.to, [...at, "to"]), sinks),
        ...texts(route.webhook, [...at, "webhook"]).flatMap((name) => webhookName(name, webhooks)),
        ...Object.keys(fields(route.where)).flatMap((pointer) =>
          Pointer.parse(pointer) === undefined
            ? [
                error(
                  [...at, "where", pointer],
                  "this is no JSON Pointer",
                  pointer.startsWith("/") ? pointerHint : `did you mean "/${pointer.replaceAll(".", "/")}"?`,
                  "key",
                ),
              ]
            : [],
        ),
      ]
    }),
  ]
}

const sinkNames = (names: ReadonlyArray<Text>, sinks: ReadonlyArray<string>): ReadonlyArray<Finding> =>
  names.flatMap(({ path, text }) =>
    sinks.includes(text) ? [] : [error(path, `there is no sink "${text}"`, didYouMean(text, sinks, "the sinks are"))],
  )

const webhookName = ({ path, text }: Text, webhooks: ReadonlyArray<string>): ReadonlyArray<Finding> =>
  webhooks.includes(text)
    ? []
    : [error(path, `there is no webhook "${text}"`, didYouMean(text, webhooks, "the webhooks are"))]

const testRules = (root: Fields): ReadonlyArray<Finding> => {
  const known = [...eventTypes, ...relayEventTypes]
  return items(root.tests).flatMap((value, index) => {
    const test = fields(value)
    const at: Path = ["tests", index]
    const to = texts(test.to, [...at, "to"])
    return [
      ...sinkNames(to, Object.keys(fields(root.sinks))),
      ...Object.keys(fields(test.payloads)).flatMap((sink) =>
        to.some(({ text }) => text === sink)
          ? []
          : [
              error(
                [...at, "payloads", sink],
                `"to" does not name the sink "${sink}", so it is sent nothing`,
                undefined,
                "key",
              ),
            ],
      ),
      ...(test.object !== undefined && test.sample !== undefined
        ? [
            error(
              [...at, "object"],
              'a test has an "object" or a "sample", not both',
              "the sample has its own object",
              "key",
            ),
          ]
        : []),
      ...texts(test.webhook, [...at, "webhook"]).flatMap((name) =>
        webhookName(name, Object.keys(fields(root.webhooks))),
      ),
      ...texts(test.event, [...at, "event"]).flatMap(({ path, text }) =>
        known.includes(text as (typeof known)[number])
          ? []
          : [warning(path, "this is none of the event types", didYouMean(text, known, "for example"))],
      ),
    ]
  })
}

const listenRules = (root: Fields): ReadonlyArray<Finding> => {
  const admin = fields(root.admin)
  const listen = parseAddress(root.listen ?? "127.0.0.1:8080")
  const adminListen = parseAddress(admin.listen ?? "127.0.0.1:9080")
  const found: Array<Finding> = []
  if (listen !== undefined && !isLoopback(listen) && root.tls === undefined) {
    found.push(
      warning(
        ["listen"],
        "the receiver listens beyond this machine without TLS",
        'set "tls", or keep it behind a proxy that does TLS',
      ),
    )
  }
  if (adminListen === undefined) return found
  if (!isLoopback(adminListen)) {
    const path: Path = ["admin", "listen"]
    found.push(
      admin.token === undefined
        ? error(
            path,
            "the admin API listens beyond this machine and has no token",
            'set "admin.token", or listen on 127.0.0.1',
          )
        : warning(
            path,
            "the admin API listens beyond this machine, without TLS",
            "anyone on the way can read its token",
          ),
    )
  }
  const wild = (host: string) => host === "0.0.0.0" || host === "::"
  if (
    listen !== undefined &&
    listen.port !== 0 &&
    listen.port === adminListen.port &&
    (listen.host === adminListen.host || wild(listen.host) || wild(adminListen.host))
  ) {
    found.push(
      error(["admin", "listen"], 'the admin API and "listen" can\'t share an address', "give one of them another port"),
    )
  }
  return found
}

/** What is allowed and probably not meant. Told only where nothing is wrong: a mistake would cause them all. */
const idleRules = (root: Fields): ReadonlyArray<Finding> => {
  const routes = items(root.routes).map(fields)
  const reached = new Set(routes.flatMap((route) => texts(route.to, []).map(({ text }) => text)))
  const taken = (webhook: string) => routes.some((route) => route.webhook === undefined || route.webhook === webhook)
  const webhooks = Object.keys(fields(root.webhooks))
  return [
    ...(webhooks.length === 0
      ? [warning(["webhooks"], "there is no webhook, so nothing can be received", undefined, "key")]
      : []),
    ...webhooks.flatMap((name) =>
      taken(name) ? [] : [warning(["webhooks", name], "no route takes the events of this webhook", undefined, "key")],
    ),
    ...(routes.length === 0
      ? [warning(["routes"], "there is no route, so events are kept and go nowhere", undefined, "key")]
      : []),
    ...Object.keys(fields(root.sinks)).flatMap((name) =>
      reached.has(name) || routes.length === 0
        ? []
        : [warning(["sinks", name], "no route leads to this sink", `add "${name}" to a route's "to"`, "key")],
    ),
  ]
}

/** Details can only be had where the API is told of, and for types and places that are some. */
const clientRules = (root: Fields): ReadonlyArray<Finding> => {
  const asking = Object.entries(fields(root.sinks)).filter(([, sink]) => fields(sink).enrich !== undefined)
  if (root.clients === undefined) {
    return asking.map(([name]) =>
      error(
        ["sinks", name, "enrich"],
        'there is no "clients": nobody says where details are to be had',
        undefined,
        "key",
      ),
    )
  }
  const events = Object.entries(fields(fields(root.clients).events)).flatMap(([pattern, pointer]) => {
    const at: Path = ["clients", "events", pattern]
    const problem = Pattern.problem(pattern)
    return [
      ...(problem === undefined ? [] : [error(at, problem, undefined, "key")]),
      ...(typeof pointer === "string" && Pointer.parse(pointer) === undefined
        ? [error(at, "this is no JSON Pointer", "such as /data/object/client_id")]
        : []),
    ]
  })
  return asking.length === 0
    ? [...events, warning(["clients"], "no sink asks for client details", 'with "enrich"', "key")]
    : events
}

/** Everything that the parts' shapes can't say. `now` is in epoch milliseconds. */
export const check = (resolved: unknown, now: number): ReadonlyArray<Finding> => {
  const root = fields(resolved)
  return [
    ...listenRules(root),
    ...webhookRules(root, now),
    ...sinkRules(root),
    ...fileRules(root),
    ...routeRules(root),
    ...testRules(root),
    ...clientRules(root),
  ]
}

export const idle = (resolved: unknown): ReadonlyArray<Finding> => idleRules(fields(resolved))
