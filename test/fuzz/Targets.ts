/**
 * The targets of the fuzzing: texts and files from outside, each with a statement that holds whatever they contain.
 * Some rounds of the fault campaign, which draw their inputs at random, are targets too: an input's bytes then decide
 * the draws.
 */
import { isUtf8 } from "node:buffer"
import { createHmac } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { search as byLibrary } from "@jmespath-community/jmespath"
import { Context, Effect, Exit, Layer, Logger, Result, Scope } from "effect"
import { parse as parseJsonc } from "jsonc-parser"
import { jsonSchema } from "../../src/config/schema/JsonSchema.ts"
import * as Envelope from "../../src/event/Envelope.ts"
import type { Event } from "../../src/event/Event.ts"
import * as Numbers from "../../src/event/Numbers.ts"
import { get, parsePointer } from "../../src/event/Pointer.ts"
import { hmacSha256, verify } from "../../src/event/Signature.ts"
import * as Jmespath from "../../src/formats/jmespath/Jmespath.ts"
import * as Rendering from "../../src/formats/Rendering.ts"
import { Ingest } from "../../src/ingest/Ingest.ts"
import { journalTypes } from "../../src/journal/Journals.ts"
import * as Record from "../../src/journal/stream/Record.ts"
import { SearchIds } from "../../src/journal/stream/SearchIds.ts"
import * as Foreign from "../../src/routing/Foreign.ts"
import * as Pattern from "../../src/routing/Pattern.ts"
import * as Runtime from "../../src/runtime/Runtime.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { validate } from "../config/validate.ts"
import { Configs, checkConfig, good } from "../faults/senders/fuzz/Configs.ts"
import { Deliveries } from "../faults/senders/fuzz/Deliveries.ts"
import { checkBody, Json } from "../faults/senders/fuzz/Json.ts"
import { checkPattern, Patterns } from "../faults/senders/fuzz/Patterns.ts"
import { chosenBy, type Found, type Fuzz } from "../faults/senders/fuzz/Random.ts"
import { routes, secretValue, webhook } from "../ingest/fixture.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { activeConfig } from "../lib/activeConfig.ts"
import { envelope, sign } from "../lib/kit.ts"
import { root } from "../lib/programs.ts"
import { journal } from "./JournalFiles.ts"
import { kafka } from "./KafkaAnswers.ts"
import type { Input } from "./Mutations.ts"
import { Broken, type Play, type Target } from "./Search.ts"

const textOf = (input: Input): string => Buffer.from(input).toString("utf8")
const latin = (input: Input): string => Buffer.from(input).toString("latin1")

/** Splits at the first occurrence. The second part is empty if there is none. */
const splitAt = (text: string, separator: string): readonly [string, string] => {
  const at = text.indexOf(separator)
  return at === -1 ? [text, ""] : [text.slice(0, at), text.slice(at + separator.length)]
}

const judged = ({ side, wrong }: Found): string => {
  if (wrong === undefined) return side
  throw new Broken(wrong.split(/[:"]/, 1)[0] ?? "", wrong)
}

/** Plays an input's text, or, behind a NUL, a round of the campaign whose draws are the input's bytes. */
const orByChoices = async (fuzz: Fuzz, play: Play): Promise<Play> => {
  const round = await fuzz.open()
  return async (input) => (input[0] === 0 ? judged(await round(chosenBy(input.subarray(1)))) : play(input))
}

/** Texts in a JSON value that are long enough to be recognized elsewhere. */
const textsIn = (value: unknown): ReadonlyArray<string> => {
  if (typeof value === "string") return value.length >= 8 ? [value] : []
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : []
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const choices: ReadonlyArray<Uint8Array> = [
  Buffer.alloc(9),
  Buffer.from("\0the choices of a round, in bytes of any kind"),
]

// Signatures.

const now = Date.UTC(2026, 10, 29, 8)
const old = "whsec_b2xkZXI="
const own = "whsec_bmV3ZXI="
const time = String(now / 1_000)
/** A header's value, as `Headers` holds it. */
const holdable = (text: string): string => text.replace(/[^\t\x20-\x7e\x80-\xff]/g, "~").trim()

type SchemeName = keyof typeof Foreign.schemes
const schemeNames = Object.keys(Foreign.schemes) as ReadonlyArray<SchemeName>
const isScheme = (name: string): name is SchemeName => Object.hasOwn(Foreign.schemes, name)

interface Signed {
  readonly header: string
  readonly id: string
  readonly timestamp: string
}

/** The text that a scheme signs, as the sender's documentation has it. */
const signedText = (name: SchemeName, { id, timestamp }: Signed): string => {
  if (name === "slack") return `v0:${timestamp}:`
  if (name === "stripe") return `${timestamp}.`
  return name === "svix" || name === "standard-webhooks" ? `${id}.${timestamp}.` : ""
}

const digestOf = (name: SchemeName, secret: string, signed: Signed, body: Input): Buffer => {
  const isText = !["svix", "standard-webhooks"].includes(name)
  const key = isText ? Buffer.from(secret) : Buffer.from(secret.slice("whsec_".length), "base64")
  return createHmac("sha256", key)
    .update(Buffer.concat([Buffer.from(signedText(name, signed)), body]))
    .digest()
}

const verifiers = new Map(
  schemeNames.map((name) => [
    name,
    Foreign.verifierOf(Foreign.schemes[name].verify, [
      { name: "main", value: own },
      { name: "old", value: old, expiresAt: now - 1 },
    ]),
  ]),
)

/** A delivery of another sender: accepted only if the header has the right digest, and the time is near. */
const foreignSignature = (name: SchemeName, lines: ReadonlyArray<string>, body: Input): string => {
  const scheme: Foreign.Scheme = Foreign.schemes[name].verify
  const headers = new Headers()
  for (const line of lines) {
    const [key, value] = splitAt(line, ":")
    if (/^[a-z-]+$/i.test(key)) headers.append(key, holdable(value))
  }
  const given = headers.get(scheme.header) ?? ""
  const inHeader = /(?:^|,)\s*t=([^,]*)/.exec(given)?.[1]?.trim() ?? ""
  const timestamp = name === "stripe" ? inHeader : (headers.get(scheme.timestamp ?? "none") ?? "")
  const signed = { header: given, id: headers.get(scheme.id ?? "none") ?? "", timestamp }
  const [right, expired] = [own, old].map((secret) => digestOf(name, secret, signed, body).toString(scheme.encoding))
  if (given !== "")
    headers.set(scheme.header, given.replaceAll("{main}", right ?? "").replaceAll("{old}", expired ?? ""))
  const verdict = verifiers.get(name)?.(headers, body, now)
  const mentions = (headers.get(scheme.header) ?? "")
    .split(/[,= ]+/)
    .some((part) => isDigest(part, right ?? "", scheme))
  const isTimely = scheme.timestamp === undefined || Math.abs(now - Number(timestamp) * 1_000) <= 300_000
  if (verdict?.ok === true && !(mentions && isTimely)) throw new Broken("a wrong signature is accepted")
  const sender = { scheme, places: Foreign.schemes[name].event, types: [] }
  const event = { webhook: "w", webhookId: "", signature: "", secret: "", receivedAt: now, body }
  const facts = Foreign.read(sender, "/w", { ...event, foreign: Foreign.received(sender, headers) })
  if (!/^[+-]?\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(facts.foreign.createdAt))
    throw new Broken("a time in another form")
  if (facts.id === "" || facts.type.includes("/")) throw new Broken("an event without an id, or with a wrong type")
  Foreign.challengeIn(sender, body)
  Foreign.hubChallenge(`http://relay.example/?${latin(body).replace(/[^\x20-\x7e]/g, "")}`)
  return verdict?.ok === true ? `${name} accepted` : `${name} ${verdict?.reason}`
}

/** Base64 may be written in several ways, and hexadecimal digits in two. */
const isDigest = (part: string, right: string, { encoding }: Foreign.Scheme): boolean =>
  encoding === "hex"
    ? part.toLowerCase() === right
    : Buffer.from(part, "base64").toString("base64") === right ||
      Buffer.from(`${part}=`, "base64").toString("base64") === right

const ownSecrets = [
  { name: "main", hmac: hmacSha256(own) },
  { name: "old", expiresAt: now - 1, hmac: hmacSha256(old) },
]

const ownSignature = (line: string, body: Input): string => {
  const header = line.replaceAll("{main}", sign(body, own)).replaceAll("{old}", sign(body, old))
  const verdict = verify(ownSecrets, header === "" ? null : header, body, now)
  const expected = (): string => {
    if (header === sign(body, own)) return "main"
    if (header === sign(body, old)) return "expired"
    if (/^sha256=[0-9A-F]{64}$/.test(header)) return "mismatch"
    return "missing doubled several malformed lowercase"
  }
  const got = verdict.ok ? verdict.secret : verdict.reason
  if (!expected().split(" ").includes(got)) throw new Broken("a wrong verdict on a signature", `${got} for ${header}`)
  return got
}

const signature: Play = (input) => {
  const [head, body] = splitAt(latin(input), "\n\n")
  const [scheme = "", ...lines] = head.split("\n")
  const bytes = Buffer.from(body, "latin1")
  return isScheme(scheme) ? foreignSignature(scheme, lines, bytes) : ownSignature(lines.join(""), bytes)
}

const signatureSeeds = (): ReadonlyArray<string> => {
  const body = '{"type":"invoice.paid","id":"evt_1","created":1796000000,"event":{"type":"message"}}'
  const foreign = schemeNames.map((name) => {
    const { header, prefix = "", timestamp, id }: Foreign.Scheme = Foreign.schemes[name].verify
    const isInside = timestamp?.endsWith("=") === true
    const lines = [
      `${header}: ${isInside ? `${timestamp}${time},` : ""}${prefix}{main}`,
      ...(timestamp === undefined || isInside ? [] : [`${timestamp}: ${time}`]),
      ...(id === undefined ? [] : [`${id}: msg_1`]),
    ]
    return `${name}\n${lines.join("\n")}\n\n${body}`
  })
  return [
    ...foreign,
    ...["{main}", "{old}", "{main}, {main}", "{main},{old}", `sha256=${"ab".repeat(32)}`].map(
      (header) => `own\n${header}\n\n${envelope("evt_1")}`,
    ),
    'slack\nx-slack-signature: v0={main}\n\n{"type":"url_verification","challenge":"abc"}',
    "meta\n\n\nhub.mode=subscribe&hub.challenge=12&hub.verify_token=x",
  ]
}

// Envelopes.

const number = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g
/** Returns the numbers of a JSON text in one way of writing, sorted. */
const numbersOf = (json: string): ReadonlyArray<string> =>
  (json.replace(/"(?:[^"\\]|\\.)*"/g, '""').match(number) ?? [])
    .map((one) => Numbers.textOf(Numbers.parse(one)) ?? "")
    .toSorted()

/** The texts of the envelope's own fields, ids and times may be shown. */
const hidden = (value: unknown): ReadonlyArray<string> =>
  textsIn(value).filter((text) => !/^[a-z]{2,8}_[A-Za-z0-9]+$|^\d{4}-\d\d-\d\dT|^[a-z_]+$/i.test(text))

const pointers = ["/data/object/id", "/data/object/list/1", "/data/object/a~1b", "/id", "/data/type"]
const searchIds = new SearchIds(pointers)

/** The scan of a body finds the texts at the pointers, and no others. The index has exactly those that a search finds. */
const idsFound = (bytes: Buffer, value: unknown): void => {
  const ids = pointers.map((pointer) => get(parsePointer(pointer) ?? [], value)).filter((id) => typeof id === "string")
  for (const id of [...ids, "an id of no body"]) {
    const isFound = searchIds.has(bytes, id)
    if (isUtf8(bytes) && isFound !== ids.includes(id)) throw new Broken("a search finds another id", id)
    if (isFound !== searchIds.hashes(bytes).includes(Record.hashOf(id)))
      throw new Broken("a search and the index differ", id)
  }
}

const body: Play = (input) => {
  const bytes = Buffer.from(input)
  const { side } = { side: judged(checkBody(bytes)) }
  const text = textOf(bytes)
  const value = parsed(text)
  if (value === undefined) return side
  const exact = JSON.stringify(Numbers.parse(text))
  if (JSON.stringify(JSON.parse(exact)) !== JSON.stringify(value))
    throw new Broken("exact numbers change the value", exact)
  const [written, read] = [numbersOf(exact), numbersOf(text)]
  if (written.length === read.length && !Bun.deepEquals(written, read)) throw new Broken("a number is changed", exact)
  idsFound(bytes, value)
  const decoded = Envelope.decode(bytes)
  if (Result.isFailure(decoded)) return side
  const { object } = decoded.success.data
  Envelope.exact({ body: bytes }, decoded.success)
  const masked = Envelope.maskedBody({ body: bytes })
  if (masked === undefined) throw new Broken("an envelope is not masked")
  const shown = JSON.stringify(JSON.parse(textOf(masked)).data.object)
  const leaked = hidden(object).find((one) => shown.includes(JSON.stringify(one)))
  if (leaked !== undefined) throw new Broken("a masked body shows a text", leaked)
  return side
}

const bodySeeds = (): ReadonlyArray<string> => [
  envelope("evt_1"),
  envelope("evt_2", { type: "client.created", object: { id: "cl_1", first_name: null, email: "ann@example.com" } }),
  envelope("evt_3", {
    object: { list: [1, 2.5, { at: "2026-11-21T08:00:00Z", note: "call Ann" }], deep: { a: { b: [] } } },
  }),
  '{"id":"\\u0065vt_4","data":{"type":"a","object":{"id":"apt_1","list":[1,"two",[]],"a/b":"\\\\\\"x","lis\\u0074":[]}}}',
  '{"id":"e","account_id":"a","version":"1","created_at":"x","data":{"type":"t","object":{"n":12345678901234567890,"m":1e400,"z":0.10}}}',
]

// Configs.

const examples = (): ReadonlyArray<string> =>
  readdirSync(join(root, "config/examples"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".json"))
    .map((name) => readFileSync(join(root, "config/examples", name), "utf8"))

const schema = jsonSchema({ sinkTypes, journalTypes })

/** The JSON Schema accepts each config that loads, so editors show no mistake in it. */
const config: Play = async (input) => {
  const text = textOf(input)
  const side = judged(await checkConfig(text))
  if (side !== "loaded") return side
  const [wrong] = validate(schema, parseJsonc(text, [], { allowTrailingComma: true }))
  if (wrong !== undefined) throw new Broken("a config loads that the JSON Schema refuses", wrong)
  return side
}

// Patterns.

const pattern: Play = (input) => {
  const [source = "", ...types] = textOf(input).split("\n")
  const some = types.slice(0, 8)
  if (source.split(/[,*]/).length < 10) return judged(checkPattern(source, some))
  // The oracle tries each choice and each end of a `*`, which takes too long.
  if (Pattern.problem(source) !== undefined) return "many choices refused"
  const { matches } = Pattern.make(source)
  return `many choices ${some.some(matches)}`
}

const patternSeeds: ReadonlyArray<string> = [
  "**\nappointment.created\na..b\nrelay.started",
  "appointment.*\nappointment.created\nappointment.meeting.created",
  "{appointment,client}.{created,{updated,deleted}*}\nclient.updated\nclient.created",
  "relay.**\nrelay.lane_paused",
  "a.**.b\na.b\na.x.y.b",
  "*a*.b{c,d}e\nbab.bce",
]

// JMESPath.

/** Functions in which the library differs from its specification. */
const ownWay = /sort|max|min|group_by|trim/

const expression: Play = (input) => {
  const [text, json] = splitAt(textOf(input), "\n")
  const root = json.length < 4_096 ? parsed(json) : undefined
  const wrong = Jmespath.problem(text)
  if (wrong !== undefined && !(wrong.offset >= 0 && wrong.offset <= text.length))
    throw new Broken("a place outside the text")
  const compiled = Jmespath.compile(text, "where")
  const exact = root === undefined ? null : Numbers.parse(json)
  const results = [compiled.json, compiled.text, compiled.key, compiled.holds].map((run) =>
    Rendering.attempt(() => run(exact)),
  )
  for (const one of results) {
    if (Result.isSuccess(one)) continue
    const told = textsIn(root).find((part) => one.failure.message.includes(part) && !text.includes(part))
    if (told !== undefined) throw new Broken("the message of a failure tells of the event", one.failure.message)
  }
  const [made] = results
  if (made === undefined || Result.isFailure(made))
    return wrong === undefined
      ? "fails"
      : wrong.message
          .split(" ", 4)
          .join(" ")
          .replace(/".*|[\d,]+/g, "")
  if (wrong !== undefined) throw new Broken("a wrong expression has a result", text)
  const result = JSON.parse(String(made.success))
  if (JSON.stringify(root ?? null) !== JSON.stringify(exact) || ownWay.test(text) || /__proto__|constructor/.test(text))
    return "result"
  let theirs: unknown
  try {
    theirs = byLibrary(JSON.parse(JSON.stringify(root ?? null)), text) ?? null
  } catch {
    return "the library fails"
  }
  const isSame = JSON.stringify(theirs) === JSON.stringify(result)
  if (!isSame)
    throw new Broken("another result than the library's", `${JSON.stringify(result)}, ${JSON.stringify(theirs)}`)
  return "result"
}

const expressionSeeds: ReadonlyArray<string> = [
  'data.object.list[?a > `1`].{b: b, c: [a, @]} | [0]\n{"data":{"object":{"list":[{"a":2,"b":"x"}]}}}',
  'join(\', \', people[].name)\n{"people":[{"name":"Ann Example"},{"name":"Bo Example"}]}',
  'sort_by(list, &n)[*].n || length(keys(@))\n{"list":[{"n":2},{"n":1}]}',
  'let $x = a in map(&[@, $x], list)\n{"a":1,"list":[1,2,3]}',
  'not_null(a, b)[::-1] && !(c == \'x\') || to_string(d)\n{"b":[1,2],"d":{"e":null}}',
  "replace(text, 'a', 'b') | pad_left(@, `20`, ' ')\n{\"text\":\"a long text about a\"}",
  'max([a, b]) - floor(c) * `2.5` // `3`\n{"a":1,"b":12,"c":3.7}',
  'a.*[0][]."quoted key".c[1:-1:2]\n{"a":{"b":[{"quoted key":{"c":[1,2,3,4]}}]}}',
]

// HTTP.

/** A relay's listener and ingest in this process, with a journal that keeps bodies. */
const listening = async () => {
  const kept: Array<Event> = []
  const journal = MemoryJournal.layerWith(() => ({
    appendUnsafe: (event) => {
      kept.push(event)
      return Exit.succeed("appended")
    },
  }))
  const hooks = [
    webhook({ maxBody: 2_000 }),
    webhook({ name: "strict", path: "/hooks/strict", ids: ["wh_1"], strictId: true, gzip: true }),
  ]
  const layer = Ingest.layer.pipe(Layer.provide([journal, activeConfig({ webhooks: hooks, routes }), Logger.layer([])]))
  const scope = Scope.makeUnsafe()
  const context = await Effect.runPromise(Layer.buildWithScope(layer, scope))
  const handler = Context.get(context, Ingest).handle
  const serving = Runtime.serve({ address: { host: "127.0.0.1", port: 0 }, handler })
  const { address } = await Effect.runPromise(Effect.provideService(serving, Scope.Scope, scope))
  return { port: address.port, kept }
}

/** Milliseconds to wait for another answer before this side ends the connection, and then for the other side's end. */
const patience = { answer: 40, end: 1_000 }
const behind = Buffer.from("GET /behind HTTP/1.1\r\nHost: relay.example\r\nConnection: close\r\n\r\n")

/** The answer to that request, or to bytes that are not a request. */
const isOver = /HTTP\/1\.1 (?:404 [\s\S]*\/behind|400 |431 |505 )[\s\S]*\}\n$/

/** Sends bytes, and then a request that ends the connection. Returns all that came back. */
const exchanged = (port: number, bytes: Uint8Array): Promise<string> =>
  new Promise((resolve) => {
    let text = ""
    const socket = connect(port, "127.0.0.1", () => socket.write(Buffer.concat([bytes, behind])))
    const end = () => {
      clearTimeout(timer)
      socket.destroy()
      resolve(text)
    }
    const leave = () => {
      socket.end()
      timer = setTimeout(end, patience.end)
    }
    let timer = setTimeout(leave, patience.answer)
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1")
      clearTimeout(timer)
      if (isOver.test(text)) return end()
      timer = setTimeout(leave, patience.answer)
    })
    socket.on("error", end).on("close", end)
  })

const signed = (text: string, headers: ReadonlyArray<string> = [], framing?: string, payload = text): string =>
  [
    "POST /hooks/scheduling HTTP/1.1",
    "Host: relay.example",
    framing ?? `Content-Length: ${Buffer.byteLength(text)}`,
    "Content-Type: application/json",
    `X-Service-Signature: ${sign(text, secretValue)}`,
    ...headers,
    "",
    payload,
  ].join("\r\n")

const headSeeds = (): ReadonlyArray<string> => {
  const text = envelope("evt_1")
  const chunked = `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`
  return [
    signed(text),
    signed(text, [
      "X-Service-Webhook-Id: wh_1",
      "Traceparent: 00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
    ]),
    signed(text, [], "Transfer-Encoding: chunked", chunked),
    signed(text, ["Expect: 100-continue", "Content-Encoding: identity", "X-Forwarded-For: 203.0.113.7"]),
    signed(text) + signed(text),
    signed(text)
      .replace("/hooks/scheduling", "/hooks/strict")
      .replace("\r\n\r\n", "\r\nContent-Encoding: gzip\r\n\r\n"),
    "GET / HTTP/1.0\r\n\r\n",
    "HEAD /hooks/scheduling?hub.challenge=1 HTTP/1.1\r\nHost: [::1]:8080\r\nConnection: close\r\n\r\n",
  ]
}

const statusLine = /HTTP\/1\.[01] (\d{3}) /g

const openHeads = async (): Promise<Play> => {
  const { port, kept } = await listening()
  let plays = 0
  return orByChoices(Deliveries, async (input) => {
    kept.length = 0
    const text = await exchanged(port, input)
    const statuses = [...text.matchAll(statusLine)]
      .map(([, status]) => Number(status))
      .filter((status) => status >= 200)
    const accepted = statuses.filter((status) => status < 300).length
    if (text !== "" && !text.startsWith("HTTP/1.")) throw new Broken("an answer that is not HTTP", text)
    if (/\bat .+:\d+:\d+|node_modules|\/src\/|Error:/.test(text) || text.includes(secretValue))
      throw new Broken("an answer tells of the relay", text)
    if (statuses.includes(500)) throw new Broken("a bug answers 500", text)
    if (kept.length < accepted) throw new Broken("accepted without keeping", text)
    for (const { body, signature } of kept) {
      if (signature.replace(/^\s+|\s+$/g, "") !== sign(body, secretValue))
        throw new Broken("kept without its signature")
      if (!/chunked|gzip/i.test(latin(input)) && !Buffer.from(input).includes(body))
        throw new Broken("kept other bytes")
    }
    if (++plays % 500 === 0) {
      const answer = await exchanged(port, Buffer.from(signed(envelope(`evt_${plays}`))))
      if (!answer.startsWith("HTTP/1.1 202")) throw new Broken("a good delivery is refused afterwards", answer)
    }
    return statuses.join(" ")
  })
}

export const targets: ReadonlyArray<Target> = [
  {
    name: "signature",
    holds:
      "A signature is accepted if, and only if, it is the body's own, by a secret that has not expired, near its time.",
    longest: 2_048,
    most: 100,
    words: ["{main}", "{old}", "sha256=", time, "t=", "v1=", "v1,", "hub.mode=subscribe&hub.challenge="],
    seeds: signatureSeeds,
    open: async () => signature,
  },
  {
    name: "envelope",
    holds:
      "A body is an envelope if the interface says so. Its numbers keep their digits, a masked body shows no text, and a search and the index agree on its ids.",
    longest: 8_192,
    most: 200,
    words: ["1e400", "12345678901234567890", "-0", "null", "\\ud800", "\ufeff"],
    seeds: () => [...bodySeeds(), ...choices],
    open: () => orByChoices(Json, body),
  },
  {
    name: "heads",
    holds:
      "Whatever comes over TCP is answered by a status or by the end of the connection. An event is kept only with its signature.",
    longest: 8_192,
    most: 250,
    words: [
      "\r\n",
      "\n",
      "Content-Length: ",
      "Transfer-Encoding: chunked",
      "Expect: 100-continue",
      "Host: ",
      "HTTP/1.1",
      "0\r\n\r\n",
    ],
    seeds: () => [...headSeeds(), ...choices],
    open: openHeads,
  },
  {
    name: "config",
    holds: "A config loads, and the JSON Schema accepts it, or each mistake has its place and no secret.",
    longest: 16_384,
    most: 2_000,
    words: ['"$' + '{A:-b}"', '"file:x"', "1 second", "1 MiB", "// a\n", "/* */"],
    seeds: () => [...good, ...examples(), ...choices],
    open: () => orByChoices(Configs, config),
  },
  {
    name: "patterns",
    holds: "A pattern is refused, or matches the types that its meaning, spelled out, matches.",
    longest: 1_200,
    most: 1_000,
    words: ["**", "{", "}", ",", ".", "relay."],
    seeds: () => [...patternSeeds, ...choices],
    open: () => orByChoices(Patterns, pattern),
  },
  {
    name: "jmespath",
    holds:
      "An expression is refused at a place, or ends within its limits, with the library's result where both have one.",
    longest: 1_024,
    most: 500,
    words: ["[*]", "[]", "[?", "&", "`1`", "||", "&&", "==", "let $x = ", " in ", "@", "$", "|"],
    seeds: () => expressionSeeds,
    open: async () => {
      await Effect.runPromise(Jmespath.load)
      return expression
    },
  },
  kafka,
  journal,
]
