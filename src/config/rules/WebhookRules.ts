/** Rules for webhooks, their secrets, and the listeners. */
import { ByteSize, Duration, Option, Predicate } from "effect"
import { longest } from "../../event/Envelope.ts"
import { isRelayEvent } from "../../event/EventType.ts"
import { parsePointer } from "../../event/Pointer.ts"
import type { EpochMillis } from "../../event/Quantities.ts"
import * as Jmespath from "../../formats/jmespath/Jmespath.ts"
import { span } from "../../formats/Texts.ts"
import {
  isBase64Secret,
  isPublicKey,
  isSender,
  publicKeyOf,
  type Scheme,
  senders,
  type Unsigned,
} from "../../routing/Foreign.ts"
import { type Address, isLoopback, isWildcard } from "../Address.ts"
import { developmentSecret, maxInFlight, probePaths } from "../Config.ts"
import { error, errorAtKey, type Finding, formatPath, warning, warningAtKey } from "../diagnostics/Source.ts"
import { type Fields, fields, items, type Path } from "../Fields.ts"
import { usual } from "../schema/ConfigFile.ts"
import { headerNamePattern } from "../schema/Keys.ts"
import { foreignKeys } from "../schema/SenderKeys.ts"
import { conditionRules, nameRules, repeated, type Text, texts, weakRules } from "./ShapeRules.ts"
import { listeners } from "./SinkRules.ts"

/** Reports whether a text can be a webhook id, which is sent in a header. */
const fitsHeader = (id: string): boolean => id.length <= longest && /^[!-~]([ -~]*[!-~])?$/.test(id)

/** Finds secrets that two webhooks share. Path and id aren't signed, so either webhook would accept the other's deliveries. */
const sharedSecrets = (webhooks: Fields): ReadonlyArray<Finding> => {
  const all = Object.entries(webhooks).flatMap(([name, value]) => {
    const { path: url, secrets } = fields(value)
    return items(secrets).flatMap((secret, index) =>
      texts(fields(secret).value, ["webhooks", name, "secrets", index, "value"]).map((one) => ({ ...one, name, url })),
    )
  })
  return repeated(all, ({ text }) => text).flatMap(([{ path, text, name, url }]) => {
    const other = all.find((one) => one.text === text && one.name !== name && one.url === url)
    if (other === undefined) return []
    const theirs = formatPath(other.path.slice(0, 2))
    return [
      error(
        path,
        `${theirs} has the same path and the same secret: the id is not signed, so deliveries of one pass for those of the other`,
        "give each webhook the secret that the sender shows for it, or make them one with a list of ids",
      ),
    ]
  })
}

/** Finds webhooks that the same request could belong to. */
const sharedPaths = (webhooks: Fields): ReadonlyArray<Finding> => {
  const receivers = Object.entries(webhooks).flatMap(([name, value]) => {
    const { path: url, id } = fields(value)
    if (typeof url !== "string") return []
    const at: Path = ["webhooks", name]
    const ids = texts(id, [...at, "id"])
    return ids.length === 0 ? [{ path: [...at, "path"], url, text: "" }] : ids.map((one) => ({ ...one, url }))
  })
  return repeated(receivers, ({ url, text }) => JSON.stringify([url, text])).map(([{ path, text }, first]) => {
    const same = text === "" ? "the same path, and neither has an id" : "the same path and id"
    return error(path, `${formatPath(first.path.slice(0, 2))} has ${same}`, "give each its own path, or its own id")
  })
}

const idRules = (ids: ReadonlyArray<Text>): ReadonlyArray<Finding> => {
  const hint = `visible ASCII without a blank at either end, at most ${longest} characters`
  return ids
    .filter(({ text }) => !fitsHeader(text))
    .map(({ path }) => error(path, "no delivery can have this id, because no header can hold it", hint))
}

const bodyRules = (maxBody: unknown, at: Path): ReadonlyArray<Finding> => {
  const size = Option.flatMap(ByteSize.fromString(String(maxBody)), ByteSize.toNumber)
  if (Option.isNone(size) || size.value <= maxInFlight) return []
  return [error(at, "no body of this size can be received: all bodies in flight share 64 MiB", "at most 64 MiB")]
}

const headerRules = (value: unknown, at: Path): ReadonlyArray<Finding> => {
  const { signature = usual.signature, webhookId = usual.webhookId } = fields(value)
  if (typeof signature !== "string" || String(webhookId).toLowerCase() !== signature.toLowerCase()) return []
  return [error(at, "the signature and the webhook id can't be in the same header", "name the header of each")]
}

/** Refuses the secret of the embedded config, which is public. */
const developmentRules = (secrets: ReadonlyArray<Fields>, at: Path): ReadonlyArray<Finding> =>
  secrets.flatMap(({ value }, index) =>
    value === developmentSecret
      ? [
          error(
            [...at, index, "value"],
            "this is the public development secret, and the relay listens beyond this machine",
            'put the webhook\'s own signing secret here, or let "listen" be 127.0.0.1',
          ),
        ]
      : [],
  )

const timeOf = (value: unknown, otherwise: string): number =>
  Duration.toMillis(Option.getOrElse(Duration.fromInput((value ?? otherwise) as Duration.Input), () => Duration.zero))

/** Checks the timeouts, because the runtime closes a connection that is idle while its delivery waits for the disk. */
const commitRules = (commitTimeout: unknown, idleTimeout: unknown, at: Path): ReadonlyArray<Finding> => {
  const idle = timeOf(idleTimeout, usual.idleTimeout)
  if (idle === 0 || timeOf(commitTimeout, usual.commitTimeout) < idle) return []
  const message = `a delivery never waits this long: its connection is closed after "idleTimeout", ${span(idle)}`
  return [warning(at, message, 'shorten it, or raise "idleTimeout"')]
}

const probeRules = (path: unknown, at: Path): ReadonlyArray<Finding> =>
  Object.values(probePaths).some((probe) => probe === path)
    ? [error(at, 'with "probes" the relay answers a probe at this path', "give the webhook another path")]
    : []

/** The limit of a runtime in which `maxHeaders` can't be set. */
export interface HeaderLimit {
  /** The runtime's limit in words; `undefined` if `maxHeaders` can set it. */
  readonly headerLimit?: string | undefined
}

export const maxHeadersRules = ({ maxHeaders }: Fields, { headerLimit }: HeaderLimit): ReadonlyArray<Finding> =>
  maxHeaders === undefined || headerLimit === undefined
    ? []
    : [error(["maxHeaders"], `this can't be set here: ${headerLimit}`, "remove the key")]

export const webhookRules = (root: Fields, now: EpochMillis): ReadonlyArray<Finding> => {
  const webhooks = fields(root.webhooks)
  const [listen] = listeners(root)
  const isExposed = listen !== undefined && !isLoopback(listen)
  const each = Object.entries(webhooks).flatMap(([name, value]) => {
    const { id, path, maxBody, headers, secrets, commitTimeout } = fields(value)
    const at: Path = ["webhooks", name]
    const signing = items(secrets).map(fields)
    return [
      ...nameRules(name, at, "webhook"),
      ...(name === "relay"
        ? [errorAtKey(at, 'a webhook can\'t be called "relay"', "the relay's own events carry that name")]
        : []),
      ...(root.probes === true ? probeRules(path, [...at, "path"]) : []),
      ...(typeof path === "string" ? idRules(texts(id, [...at, "id"])) : []),
      ...bodyRules(maxBody, [...at, "maxBody"]),
      ...headerRules(headers, [...at, "headers"]),
      ...senderRules(fields(value), at, root),
      ...commitRules(commitTimeout, root.idleTimeout, [...at, "commitTimeout"]),
      ...secretRules(secrets, [...at, "secrets"], now, fields(value).verify),
      ...(isExposed ? developmentRules(signing, [...at, "secrets"]) : []),
    ]
  })
  return [...sharedSecrets(webhooks), ...each, ...sharedPaths(webhooks)]
}

const secretRules = (value: unknown, at: Path, now: EpochMillis, verify: unknown): ReadonlyArray<Finding> => {
  const secrets = items(value).map(fields)
  if (Array.isArray(value) && secrets.length === 0 && verify !== "none") {
    return [error(at, noSecret)]
  }
  const named = secrets.flatMap(({ name }, index) => texts(name, [...at, index, "name"]))
  const twice = repeated(named, ({ text }) => text).map(([again]) =>
    error(again.path, "another secret of this webhook has the same name", "logs tell secrets apart by their names"),
  )
  const hasExpired = ({ expires }: Fields) => typeof expires === "string" && Date.parse(expires) <= now
  if (secrets.length > 0 && secrets.every(hasExpired)) {
    const message = "every secret here has expired: no delivery will verify"
    return [...twice, warningAtKey(at, message, "add the current signing secret")]
  }
  return [
    ...twice,
    ...secrets.flatMap(({ value }, index) => weakRules(value, [...at, index, "value"], "a signing secret")),
    ...secrets.flatMap((secret, index) =>
      hasExpired(secret)
        ? [warning([...at, index, "expires"], "this secret has expired and verifies nothing", "it can be removed")]
        : [],
    ),
  ]
}

const noSecret = "without a secret no delivery can be verified: add the one that the sender shows for the webhook"

// Rules for webhooks of other senders.

/** A header's name without dots. With dots, a path into the body is meant. */
const plainHeader = /^[A-Za-z0-9_-]+$/

/** Finds places that are not a header's name, a JSON Pointer or an expression. */
const placeRules = ({ types: _, ...places }: Fields, at: Path): ReadonlyArray<Finding> =>
  Object.entries(places).flatMap(([key, value]) => [
    ...texts(value, [...at, key])
      .filter(({ text }) => (text.startsWith("/") ? parsePointer(text) === undefined : !plainHeader.test(text)))
      .map(({ path }) =>
        error(
          path,
          "this is neither a header's name nor a JSON Pointer",
          'such as "x-event-type", "/data/type" or { "jmespath": "data.type" }',
        ),
      ),
    ...(Array.isArray(value) ? value.map((item, index) => [item, [key, index]] as const) : [[value, [key]] as const])
      .filter(([item]) => Jmespath.isShape(item))
      .flatMap(([item, path]) => conditionRules(fields(item).jmespath, [...at, ...path, "jmespath"])),
  ])

/** Checks a scheme that the config writes out. */
const hmacRules = ({ signed = "{{body}}", timestamp, id, separator }: Fields, at: Path): ReadonlyArray<Finding> => {
  if (typeof signed !== "string") return []
  const names = new Set([...signed.matchAll(/\{\{([^{}]*)\}\}/g)].map(([, name = ""]) => name))
  const hint = "the placeholders are {{timestamp}}, {{id}} and {{body}}"
  const found: Array<Finding> = []
  const wrong = [...names].find((name) => !["timestamp", "id", "body"].includes(name))
  if (wrong !== undefined) found.push(error([...at, "signed"], `{{${wrong}}} is no placeholder`, hint))
  if (!names.has("body")) found.push(error([...at, "signed"], "without {{body}} anything could be sent", hint))
  for (const [key, value] of Object.entries({ timestamp, id })) {
    if (names.has(key) === (value !== undefined)) continue
    found.push(
      value === undefined
        ? error([...at, "signed"], `{{${key}}} has no value`, `set "${key}" to the header that has it`)
        : error([...at, key], `"signed" has no {{${key}}}, so this is not signed`, "remove it, or add the placeholder"),
    )
  }
  if (typeof timestamp !== "string") return found
  const isPart = timestamp.endsWith("=")
  if (isPart && separator === undefined) {
    found.push(
      error([...at, "timestamp"], "this is a part of the signature's header, which has no parts", 'set "separator"'),
    )
  }
  if (!isPart && !headerNamePattern.test(timestamp)) {
    found.push(error([...at, "timestamp"], "this is no header name", 'such as "x-timestamp", or "t=" for a part'))
  }
  return found
}

/** The part of a scheme that says which secrets it can have. */
type SecretForm = Pick<Scheme, "secret" | "ed25519"> | Unsigned

/** Returns why no delivery would verify with a secret, and its right form; `undefined` if one may. */
const secretFault = (scheme: SecretForm, value: string): readonly [message: string, hint: string] | undefined => {
  if ("credential" in scheme) {
    if (scheme.credential === "basic" && !value.includes(":"))
      return ["this has no colon", "for `basic` it is the user, a colon and the password"]
    if (scheme.credential === "bearer" && value.includes(" "))
      return ["no header can have a token with a blank", "give the token alone, without `Bearer`"]
    return undefined
  }
  if (scheme.secret !== "base64") return undefined
  if (scheme.ed25519 !== undefined && isPublicKey(value))
    return publicKeyOf(value) === undefined
      ? ["this is no Ed25519 key", "it is `whpk_` and 32 bytes in base64"]
      : undefined
  return isBase64Secret(value) ? undefined : ["this is no base64", "the sender shows it as `whsec_` and base64"]
}

const keyRules = (scheme: SecretForm, secrets: unknown, at: Path): ReadonlyArray<Finding> =>
  items(secrets).flatMap((secret, index) =>
    texts(fields(secret).value, [...at, "secrets", index, "value"]).flatMap(({ text, path }) => {
      const [fault, hint] = secretFault(scheme, text) ?? []
      return fault === undefined ? [] : [error(path, `${fault}, so no delivery would verify`, hint)]
    }),
  )

/** Checks a webhook whose sender signs nothing, so that others can read or forge its deliveries. */
const unsignedRules = ({ credential }: Unsigned, secrets: unknown, at: Path, root: Fields): ReadonlyArray<Finding> => {
  const path = [...at, "verify"]
  if (credential !== "none") {
    if (root.tls !== undefined || root.behindProxy === true) return []
    const message = "anyone on the way can read this secret, because the relay does no TLS"
    return [error(path, message, 'set "tls", or "behindProxy": true if a proxy in front does TLS')]
  }
  const [listen] = listeners(root)
  const isOpen = listen !== undefined && !isLoopback(listen)
  return [
    ...(items(secrets).length > 0 ? [error([...at, "secrets"], "nothing verifies these", "leave the list empty")] : []),
    isOpen
      ? error(
          path,
          "everybody could send events, because the relay listens beyond this machine",
          'let "listen" be 127.0.0.1 or a Unix socket, or verify the deliveries',
        )
      : warning(
          path,
          "every program on this machine can send events, and a proxy in front opens this to everybody",
          "verify the deliveries if there is a proxy",
        ),
  ]
}

/** Checks what only a webhook of another sender has. */
const senderRules = (webhook: Fields, at: Path, root: Fields): ReadonlyArray<Finding> => {
  const { verify, event, secrets } = webhook
  if (verify === undefined) {
    return foreignKeys
      .filter((key) => webhook[key] !== undefined)
      .map((key) =>
        errorAtKey([...at, key], 'this key is for webhooks with "verify" alone', 'set "verify", or remove it'),
      )
  }
  const named = typeof verify === "string" && isSender(verify) ? senders[verify] : undefined
  const places: Fields = { ...named?.event, ...fields(event) }
  const found = [
    ...["id", "headers", "strictId"]
      .filter((key) => webhook[key] !== undefined)
      .map((key) =>
        errorAtKey([...at, key], 'a webhook with "verify" has no webhook id and no header of the service', "remove it"),
      ),
    ...hmacRules(fields(verify), [...at, "verify"]),
    ...placeRules(fields(event), [...at, "event"]),
    ...texts(fields(event).types, [...at, "event", "types"])
      .filter(({ text }) => isRelayEvent(text))
      .map(({ path }) => error(path, "event types that begin with relay. are the relay's own", "remove it")),
  ]
  if (typeof verify === "string" ? named === undefined : !Predicate.isObject(verify)) return found
  const scheme: SecretForm = named?.verify ?? { secret: fields(verify).secret === "base64" ? "base64" : "text" }
  if ("credential" in scheme) found.push(...unsignedRules(scheme, secrets, at, root))
  found.push(...keyRules(scheme, secrets, at))
  if (items(places.type).length === 0 && typeof places.type !== "string" && !Jmespath.isShape(places.type)) {
    found.push(error([...at, "verify"], "no key says which part of a delivery is its event type", 'set "event.type"'))
  }
  if (places.id === undefined) {
    const message = 'deliveries have no id, so two with equal bytes and time count as one within "journal.duplicates"'
    found.push(warning([...at, "verify"], message, 'set "event.id" if the sender gives one'))
  }
  return found
}

const socketRules = ({ socket, tls }: Fields, { unix }: Address): ReadonlyArray<Finding> => {
  if (unix === undefined) {
    return socket === undefined ? [] : [error(["socket"], '"listen" is not a Unix socket', "remove one of them")]
  }
  return tls === undefined
    ? []
    : [error(["tls"], "a Unix socket has no TLS: the proxy in front does it", 'remove it, or let "listen" be a port')]
}

export const listenRules = (root: Fields): ReadonlyArray<Finding> => {
  const { token, tokens } = fields(root.admin)
  const [listen, adminListen] = listeners(root)
  const found: Array<Finding> = []
  if (listen !== undefined && !isLoopback(listen) && root.tls === undefined && root.behindProxy !== true) {
    const hint = 'set "tls", or "behindProxy": true if a proxy in front does TLS'
    found.push(warning(["listen"], "the receiver listens beyond this machine without TLS", hint))
  }
  if (listen !== undefined) found.push(...socketRules(root, listen))
  if (adminListen === undefined) return found
  const at: Path = ["admin", "listen"]
  if (!isLoopback(adminListen) && token === undefined && tokens === undefined) {
    const hint = 'set "admin.token" or "admin.tokens", or listen on 127.0.0.1'
    found.push(error(at, "the admin API listens beyond this machine and has no token", hint))
  } else if (!isLoopback(adminListen)) {
    const hint = "anyone on the way can read its token"
    found.push(warning(at, "the admin API listens beyond this machine, without TLS", hint))
  }
  if (listen !== undefined && overlap(listen, adminListen)) {
    found.push(error(at, 'the admin API and "listen" can\'t share an address', "give one of them another port"))
  }
  return found
}

/** Reports whether two listeners can't be open at the same time. */
const overlap = (a: Address, b: Address): boolean =>
  a.port !== 0 && a.port === b.port && (a.host === b.host || isWildcard(a) || isWildcard(b))
