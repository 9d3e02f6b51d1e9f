/** Rules for webhooks, their secrets, and the listeners. */
import { ByteSize, Option } from "effect"
import { longest } from "../../event/Envelope.ts"
import { isLoopback } from "../Address.ts"
import { developmentSecret, maxInFlight } from "../Config.ts"
import { error, type Finding, formatPath, type Path, warning } from "../diagnostics/Source.ts"
import { type Fields, fields, items } from "../Fields.ts"
import { parseAddress } from "../schema/Units.ts"
import { nameRules, repeated, texts } from "./Shape.ts"

/** Whether a text can be a webhook id: a header must hold it. */
const comesInHeader = (id: string): boolean => id.length <= longest && /^[!-~]([ -~]*[!-~])?$/.test(id)

/** Secrets that two webhooks share: neither path nor id is signed, so a delivery to one would be accepted by the other. */
const sharedSecrets = (webhooks: Fields): ReadonlyArray<Finding> => {
  const all = Object.entries(webhooks).flatMap(([name, value]) => {
    const { path: url, secrets } = fields(value)
    return items(secrets).flatMap((secret, index) =>
      texts(fields(secret).value, ["webhooks", name, "secrets", index, "value"]).map((one) => ({ ...one, name, url })),
    )
  })
  return repeated(all, ({ text }) => text).flatMap(([again]) => {
    const others = all.filter(({ text, name }) => text === again.text && name !== again.name)
    const [other] = others.filter(({ url }) => url === again.url)
    if (other !== undefined) {
      return [
        error(
          again.path,
          `${formatPath(other.path.slice(0, 2))} has the same path and the same secret: the id is not signed, so deliveries of one pass for those of the other`,
          "give each webhook the secret that the sender shows for it, or make them one with a list of ids",
        ),
      ]
    }
    return []
  })
}

export const webhookRules = (root: Fields, now: number): ReadonlyArray<Finding> => {
  const found: Array<Finding> = []
  const exposed = parseAddress(root.listen ?? "127.0.0.1:8080")
  found.push(...sharedSecrets(fields(root.webhooks)))
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
      for (const { path, text } of ids) {
        if (comesInHeader(text)) continue
        found.push(
          error(
            path,
            "no delivery can name this id: it comes in a header",
            `visible ASCII without a blank at either end, at most ${longest} characters`,
          ),
        )
      }
    }
    const maxBody = Option.flatMap(ByteSize.fromString(String(webhook.maxBody)), ByteSize.toNumber)
    if (Option.isSome(maxBody) && maxBody.value > maxInFlight) {
      found.push(
        error(
          [...at, "maxBody"],
          "no body of this size can be received: all that are in flight have 64 MiB together",
          "at most 64 MiB",
        ),
      )
    }
    const headers = fields(webhook.headers)
    const signature = headers.signature ?? "x-service-signature"
    const webhookId = headers.webhookId ?? "x-service-webhook-id"
    if (typeof signature === "string" && String(webhookId).toLowerCase() === signature.toLowerCase()) {
      found.push(
        error(
          [...at, "headers"],
          "the signature and the webhook id can't be in the same header",
          "name the header of each",
        ),
      )
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

/** Fewer bytes can be guessed. */
const shortestSecret = 16

/** A secret that can be guessed, or that was cut off. A finding tells no more of it than that it is short. */
const weakRules = (value: unknown, path: Path, what: string): ReadonlyArray<Finding> =>
  typeof value !== "string" || value === "" || Buffer.byteLength(value) >= shortestSecret
    ? []
    : [
        warning(
          path,
          `${what} of fewer than ${shortestSecret} bytes can be guessed`,
          "is it all of it? A longer one is better: `openssl rand -hex 32` makes one",
        ),
      ]

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
    ...secrets.flatMap(({ value }, index) => weakRules(value, [...at, index, "value"], "a signing secret")),
    ...expired.flatMap((is, index) =>
      is
        ? [warning([...at, index, "expires"], "this secret has expired and verifies nothing", "it can be taken out")]
        : [],
    ),
  ]
}

export const listenRules = (root: Fields): ReadonlyArray<Finding> => {
  const admin = fields(root.admin)
  const listen = parseAddress(root.listen ?? "127.0.0.1:8080")
  const adminListen = parseAddress(admin.listen ?? "127.0.0.1:9080")
  const found: Array<Finding> = [...weakRules(admin.token, ["admin", "token"], "a token")]
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
