/** Deliveries with odd headers, through the guard and ingest, against an oracle of the table of answers. */
import { Context, Effect, Exit, Layer, Logger, Redacted, Scope } from "effect"
import type { Event } from "../../../../src/event/Event.ts"
import { Ingest } from "../../../../src/ingest/Ingest.ts"
import * as Guard from "../../../../src/runtime/RequestGuard.ts"
import { hmac } from "../../../../src/runtime/Runtime.ts"
import { routes, secretValue, webhook } from "../../../ingest/fixture.ts"
import * as MemoryJournal from "../../../journal/MemoryJournal.ts"
import { activeConfig } from "../../../lib/activeConfig.ts"
import { sign } from "../../../lib/kit.ts"
import type { Found, Fuzz, Random } from "./Random.ts"

const expired = "whsec_expired"
const maxBody = 2_000
const secrets = [
  { name: "main", value: Redacted.make(secretValue) },
  { name: "old", value: Redacted.make(expired), expires: Date.UTC(2025, 0) },
]
const webhooks = [
  webhook({ secrets, maxBody }),
  webhook({ name: "strict", path: "/hooks/strict", ids: ["wh_1"], strictId: true, secrets, maxBody }),
]

/** Replaces characters that a header can't hold, because `new Headers` throws on them. */
const holdable = (text: string): string => text.replace(/[^\t\x20-\x7e\x80-\xff]/g, "~")

const odd = (right: string, random: Random): string =>
  holdable(
    random.pick([
      () => random.hurt(right, 1),
      () => random.trouble(5),
      () => right.toLowerCase(),
      () => right.toUpperCase(),
      () => `${right}, ${right}`,
      () => ` ${right} `,
      () => "",
    ])(),
  )

const token = /^[a-z0-9.!#$&^_-]+$/
const oracle = {
  host: (host: string): boolean => {
    const bracket = host.startsWith("[") ? host.indexOf("]") : -1
    const [name, rest] =
      bracket > 0
        ? [host.slice(1, bracket), host.slice(bracket + 1)]
        : [host.split(":")[0] ?? "", host.includes(":") ? host.slice(host.indexOf(":")) : ""]
    const isName = bracket > 0 ? /^[0-9A-Fa-f:.]+$/.test(name) : /^[A-Za-z0-9._-]+$/.test(name)
    return isName && (rest === "" || /^:[0-9]{1,5}$/.test(rest)) && URL.canParse(`http://${host}`)
  },
  length: (length: string): boolean =>
    length.length <= 15 && length !== "" && [...length].every((one) => one >= "0" && one <= "9"),
  json: (type: string | null): boolean => {
    const media = (type?.split(";")[0] ?? "").trimEnd().toLowerCase()
    if (media === "application/json") return true
    if (!media.startsWith("application/") || !media.endsWith("+json")) return false
    return token.test(media.slice("application/".length, -"+json".length))
  },
}

const expected = ({ method, url, headers }: Request, body: Uint8Array): number => {
  const declared = headers.get("content-length")
  const host = headers.get("host") ?? ""
  // Probes may come without one.
  if (!oracle.host(host) && !(host === "" && (method === "GET" || method === "HEAD"))) return 400
  if (declared !== null && !oracle.length(declared)) return 400
  const path = new URL(url).pathname
  if (path !== "/hooks/scheduling" && path !== "/hooks/strict") return 404
  if (path === "/hooks/strict" && headers.get("x-service-webhook-id") !== "wh_1") return 404
  if (method !== "POST") return 405
  if (!oracle.json(headers.get("content-type"))) return 415
  const encoding = headers.get("content-encoding")
  if (encoding !== null && encoding.toLowerCase() !== "identity") return 415
  if (Number(declared ?? 0) > maxBody || (declared === null && body.byteLength > maxBody)) return 413
  if (headers.get("x-service-signature") !== sign(body, secretValue)) return 401
  // A length that was declared too small, which no runtime passes on, is found out once the body is whole.
  return body.byteLength > maxBody ? 413 : 202
}

const open = async () => {
  const kept: Array<Event> = []
  const journal = MemoryJournal.layerWith(() => ({
    appendUnsafe: (event) => {
      kept.push(event)
      return Exit.succeed("appended")
    },
  }))
  const config = activeConfig({ webhooks, routes }, hmac)
  const layer = Ingest.layer.pipe(Layer.provide([journal, config, Logger.layer([])]))
  const context = await Effect.runPromise(Layer.buildWithScope(layer, Scope.makeUnsafe()))
  let defects = 0
  const guard = Guard.make(Context.get(context, Ingest).handle, () => {
    defects += 1
  })

  return async (random: Random): Promise<Found> => {
    const text = `{"id":"evt_${random.below(1e9)}","account_id":"a","version":"1","created_at":"x","data":{"type":"block.created","object":{}}}`
    const body = Buffer.from(random.chance(0.1) ? text.padEnd(random.below(2 * maxBody)) : text)
    const right: Readonly<Record<string, string>> = {
      host: "relay.example",
      "content-type": random.pick([
        "application/json",
        "application/cloudevents+json",
        "application/json; charset=utf-8",
      ]),
      "content-length": String(body.byteLength),
      "content-encoding": "identity",
      "x-service-signature": random.pick([sign(body, secretValue), sign(body, secretValue), sign(body, expired)]),
      "x-service-webhook-id": "wh_1",
    }
    const chosen = new Set(random.some(2, () => random.pick(Object.keys(right))))
    const headers = new Headers()
    for (const [name, value] of Object.entries(right)) {
      if (!chosen.has(name)) headers.set(name, value)
      else if (random.chance(0.9)) headers.set(name, odd(value, random))
    }
    const method = random.chance(0.95) ? "POST" : random.pick(["GET", "PUT", "DELETE", "PATCH"])
    const path = random.chance(0.9)
      ? random.pick(["/hooks/scheduling", "/hooks/strict"])
      : random.pick(["/", "/hooks", "/hooks/scheduling/", "/hooks/scheduling?a=/", "/__proto__", "//hooks/strict"])
    const init = method === "GET" ? { method, headers } : { method, headers, body }
    const request = new Request(`http://relay.example${path}`, init)
    const wanted = expected(request, body)
    const before = kept.length
    const response = await guard.handle(request)
    const side = String(response.status)
    const tell = (what: string): Found => ({
      side,
      wrong: `${what}: ${method} ${path} ${JSON.stringify([...headers])} ${body.toString("utf8")}`,
    })
    if (defects > 0) return tell("a defect")
    if (response.status !== wanted) return tell(`answered ${response.status} instead of ${wanted}`)
    if (kept.length - before !== (wanted === 202 ? 1 : 0)) return tell("kept against its answer")
    const last = kept.pop()
    if (wanted === 202 && !body.equals(last?.body ?? new Uint8Array())) return tell("kept other bytes")
    return { side }
  }
}

export const Deliveries: Fuzz = {
  name: "fuzz-headers",
  fault: "deliveries with random headers",
  sides: ["202", "400", "401", "404", "405", "413", "415"],
  open,
}
