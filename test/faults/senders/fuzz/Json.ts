/** Bodies against an oracle that reads the interface, section 2.1, field by field. */
import { isUtf8 } from "node:buffer"
import { Result } from "effect"
import * as Envelope from "../../../../src/event/Envelope.ts"
import type { Found, Fuzz, Random } from "./Random.ts"

const value = (random: Random, depth = 0): unknown => {
  switch (random.below(depth > 3 ? 5 : 8)) {
    case 0:
      return random.trouble(4)
    case 1:
      return random.pick([0, -0, 1, 1.5, 1e308, -1e-300, 2 ** 53 + 1, Number.MAX_VALUE])
    case 2:
      return random.pick([null, true, false])
    case 3:
      return random.pick(["", "appointment.created", "client.created", "relay.x", "2026-11-21T00:00:00Z"])
    case 4:
      return random.pick([[], {}])
    case 5:
      return random.some(4, () => value(random, depth + 1))
    default:
      return Object.fromEntries(random.some(4, () => [random.trouble(2), value(random, depth + 1)] as const))
  }
}

/** About as long as a text of the envelope's own may be: 256 bytes. */
const long = (random: Random): string => random.pick(["x", "é", "\u{1f600}"]).repeat(60 + random.below(200))
const text = (random: Random): unknown =>
  random.chance(0.02) ? long(random) : random.chance(0.95) ? random.pick(["evt_1", "x", ""]) : value(random)

/** Its JSON with a few of its keys gone, odd or doubled. */
const envelope = (random: Random): string => {
  const type = random.chance(0.95) ? random.pick(["appointment.created", "a", "client.updated"]) : value(random)
  const object = random.chance(0.9) ? { id: value(random), first_name: value(random) } : value(random)
  const data = random.chance(0.97) ? { type, object } : value(random)
  const fields: Array<readonly [string, unknown]> = [
    ["id", text(random)],
    ["account_id", text(random)],
    ["version", text(random)],
    ["created_at", text(random)],
    ["data", data],
    ...random.some(2, () => [random.pick(["__proto__", "constructor", "id", "data", ""]), value(random)] as const),
  ]
  const kept = fields.filter(() => random.chance(0.99))
  return `{${kept.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join(",")}}`
}

const isText = (value: unknown): value is string => typeof value === "string" && Buffer.from(value).length <= 256
const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : undefined

const isEnvelope = (body: Uint8Array): boolean => {
  if (!isUtf8(body)) return false
  let root: Readonly<Record<string, unknown>> | undefined
  try {
    // Buffer keeps a byte order mark, which JSON does not know.
    root = fieldsOf(JSON.parse(Buffer.from(body).toString("utf8")))
  } catch {
    return false
  }
  const data = fieldsOf(root?.data)
  return (
    root !== undefined &&
    data !== undefined &&
    [root.id, root.account_id, root.version, root.created_at, data.type].every(isText) &&
    data.type !== "" &&
    fieldsOf(data.object) !== undefined
  )
}

const words =
  /^(the body is not (UTF-8|JSON)|the JSON is not an object|(id|account_id|version|created_at|data|data\.type|data\.object) (is missing or doesn't match the interface|is longer than 256 bytes))$/

const damage = (bytes: Buffer, random: Random): Buffer => {
  const hurt = Buffer.from(bytes)
  for (let times = random.below(3); times > 0; times--) hurt[random.below(hurt.length)] = random.below(256)
  return random.chance(0.1) ? Buffer.concat([Buffer.from("\ufeff"), hurt]) : hurt
}

/** Decodes a body, and compares the result with the oracle. */
export const checkBody = (body: Buffer): Found => {
  const decoded = Envelope.decode(body)
  const side = Result.isSuccess(decoded) ? "decoded" : "refused"
  const tell = (what: string): Found => ({ side, wrong: `${what}: ${body.toString("base64")}` })
  if (Result.isSuccess(decoded) !== isEnvelope(body)) return tell(`${side} against the oracle`)
  if (Result.isFailure(decoded))
    return words.test(decoded.failure.problem) ? { side } : tell("the problem tells of the body")
  const { id } = JSON.parse(Buffer.from(body).toString("utf8"))
  if (decoded.success.id !== id) return tell("another id")
  if (Object.hasOwn(Object.prototype, "polluted")) return tell("the prototype of all objects was changed")
  Envelope.unredactedFields(decoded.success)
  return { side }
}

const round = (random: Random): Found => {
  const written = Buffer.from(random.chance(0.2) ? random.hurt(envelope(random), 3) : envelope(random), "utf8")
  return checkBody(random.chance(0.2) ? damage(written, random) : written)
}

export const Json: Fuzz = {
  name: "fuzz-json",
  fault: "random JSON and bytes as bodies",
  sides: ["decoded", "refused"],
  open: async () => round,
}
