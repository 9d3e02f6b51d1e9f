/** Values for a schema registry, by the documented answers of registries. `SchemaParts.test.ts` has a real one. */
import { describe, expect, test } from "bun:test"
import { Deferred, Effect, Fiber, Result, Schema } from "effect"
import { TestClock } from "effect/testing"
import { eventTypes } from "../../../src/event/EventType.ts"
import { hmacSha256, verify } from "../../../src/event/Signature.ts"
import * as Jmespath from "../../../src/formats/jmespath/Jmespath.ts"
import { encoder } from "../../../src/sinks/kafka/Kafka.ts"
import { KafkaConfig } from "../../../src/sinks/kafka/KafkaConfig.ts"
import * as SchemaRegistry from "../../../src/sinks/kafka/SchemaRegistry.ts"
import { SinkError } from "../../../src/sinks/Sink.ts"
import { makeAuthority } from "../../lib/authority.ts"
import { it } from "../../lib/effect.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { client, tokenEndpoint } from "../http/tokenEndpoint.ts"
import { preview } from "../preview.ts"
import { type Handler, type Received, serve, serveTls } from "../receiver.ts"
import { bytes, entry, envelope, reasonOf } from "../samples.ts"

const canary = "canary-registry-secret"
const avro = JSON.stringify({
  type: "record",
  name: "Event",
  fields: [
    { name: "id", type: "string" },
    { name: "version", type: ["null", "string"], default: null },
    {
      name: "data",
      type: { type: "record", name: "Data", fields: [{ name: "type", type: "string" }] },
    },
  ],
})

const decode = (schema: Record<string, unknown>, more: Record<string, unknown> = {}) =>
  Schema.decodeUnknownSync(KafkaConfig)({ brokers: ["b:9092"], topic: "events", schema, ...more })

/** Opens a sink's schemas. */
const opened = (schema: Record<string, unknown>, more: Record<string, unknown> = {}) =>
  Effect.suspend(() => {
    const config = decode(schema, more)
    if (config.schema === undefined) throw new Error("no schema")
    return SchemaRegistry.make({ schema: config.schema, topic: config.topic })
  })

type Answer = readonly [status: number, body: unknown, headers?: Record<string, string>]

/** A registry that gives these answers in turn, and then repeats the last. */
const answering = Effect.fnUntraced(function* (...answers: ReadonlyArray<Answer>) {
  const requests: Array<Received> = []
  const handler: Handler = (request, response) => {
    requests.push(request)
    const [status, body, headers] = answers[requests.length - 1] ?? answers.at(-1) ?? [500, ""]
    response.writeHead(status, { "content-type": "application/vnd.schemaregistry.v1+json", ...headers })
    response.end(typeof body === "string" ? body : JSON.stringify(body))
  }
  const { url } = yield* serve(handler)
  return { url, requests }
})

const found: Answer = [200, { id: 258 }]
const noSubject: Answer = [404, { error_code: 40401, message: "Subject 'events-value' not found." }]
const noSchema: Answer = [404, { error_code: 40403, message: "Schema not found" }]
const incompatible: Answer = [
  409,
  { error_code: 409, message: 'Schema being registered is incompatible with an earlier schema for subject "events"' },
]

const bodyOf = ({ body }: Received) => JSON.parse(Buffer.from(body).toString())
const schemaIn = (request: Received) => JSON.parse(bodyOf(request).schema)

const one = entry(1)
const inFrame = (id: number, body: Uint8Array): Buffer<ArrayBuffer> =>
  Buffer.concat([Buffer.from([0, 0, 0, id >> 8, id & 255]), body])
/** A value framed by `frame`, or the reason `why` it can't be sent. */
const shown = (made: Uint8Array | SinkError) =>
  made instanceof SinkError ? { tag: made.reason._tag, why: made.message } : Buffer.from(made)

describe("a JSON value", () => {
  it.live("has a magic byte, the schema's id, and the received bytes; the id is requested once", function* () {
    const registry = yield* answering(noSubject, found)
    const schemas = yield* opened({ type: "json", registry: { url: `${registry.url}/api/` } })
    yield* schemas.prepare([one, entry(2)])
    yield* schemas.prepare([entry(3)])
    expect(shown(schemas.frame(one, one.event.body))).toEqual(inFrame(258, one.event.body))
    expect(registry.requests.map(({ method, url }) => `${method} ${url}`)).toEqual([
      "POST /api/subjects/events-value",
      "POST /api/subjects/events-value/versions",
    ])
    const [first] = registry.requests
    expect(first?.headers["content-type"]).toBe("application/vnd.schemaregistry.v1+json")
    expect(bodyOf(first as Received).schemaType).toBe("JSON")
    expect(schemaIn(first as Received).properties.data.properties.type).toEqual({ type: "string" })
  })

  it.live("has a schema that names the type if the subject does", function* () {
    const registry = yield* answering(found)
    const schemas = yield* opened({ type: "json", registry: { url: registry.url } }, { topic: "events.{{type}}" })
    const types = ["client.created", "client.deleted"]
    yield* schemas.prepare(types.map((type, index) => entry(index, { type })))
    const all = registry.requests.map((request) => [request.url, schemaIn(request).properties.data.properties.type])
    expect(all.toSorted()).toEqual(
      types.map((type) => [`/subjects/events.${type}-value`, { type: "string", const: type }]),
    )
  })

  it.live("has the subject of its topic if an expression makes that", function* () {
    const registry = yield* answering([200, ["JSON"]], found)
    yield* Jmespath.load
    const topic = { jmespath: "join('.', ['events', data.object.id])" }
    const schemas = yield* opened({ type: "json", registry: { url: registry.url } }, { topic })
    yield* schemas.check
    yield* schemas.prepare([one])
    expect(registry.requests.map(({ url }) => url)).toEqual(["/schemas/types", "/subjects/events.apt_1-value"])
    expect(yield* schemas.advise(undefined)).toEqual([])
  })

  it.live("becomes a dead letter with the place at which it does not fit", function* () {
    const registry = yield* answering(found)
    const schemas = yield* opened({ type: "json", registry: { url: registry.url } })
    yield* schemas.prepare([one])
    const { account_id: _, ...rest } = envelope(1)
    const frame = (body: unknown) => shown(schemas.frame(one, bytes(JSON.stringify(body))))
    expect(frame(rest)).toMatchObject({ tag: "DeliveryRejected", why: expect.stringContaining('"/account_id" must') })
    expect(frame({ ...rest, account_id: 7 })).toMatchObject({
      why: expect.stringContaining('"/account_id" must be string'),
    })
    expect(frame({ ...envelope(1), data: { type: "a", object: "canary" } })).toEqual({
      tag: "DeliveryRejected",
      why: 'the event does not fit the schema of subject events-value: "/data/object" must be object',
    })
    expect(shown(schemas.frame(one, bytes("{")))).toMatchObject({
      why: expect.stringContaining("the value is not JSON"),
    })
  })

  for (const draft of [
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
  ]) {
    it.live(`is checked by a schema of the user's of ${draft}`, function* () {
      const registry = yield* answering(found)
      const definition = JSON.stringify({ $schema: draft, properties: { id: { maxLength: 3 } } })
      const schemas = yield* opened({ type: "json", registry: { url: registry.url }, definition })
      yield* schemas.prepare([one])
      expect(bodyOf(registry.requests[0] as Received).schema).toBe(definition)
      expect(shown(schemas.frame(one, bytes('{"id":"abc"}')))).toEqual(inFrame(258, bytes('{"id":"abc"}')))
      expect(shown(schemas.frame(one, one.event.body))).toMatchObject({
        why: expect.stringContaining('"/id" must NOT'),
      })
    })
  }
})

describe("an Avro value", () => {
  it.live("has Avro's binary encoding, and leaves out fields that its schema doesn't have", function* () {
    const registry = yield* answering(found)
    const schemas = yield* opened({ type: "avro", registry: { url: registry.url }, definition: avro })
    yield* schemas.prepare([one])
    expect(bodyOf(registry.requests[0] as Received)).toEqual({ schema: avro })
    const encoded = [10, ...Buffer.from("evt_1"), 2, 2, ...Buffer.from("1"), 38, ...Buffer.from("appointment.created")]
    expect(shown(schemas.frame(one, one.event.body))).toEqual(inFrame(258, Uint8Array.from(encoded)))
    const withDefault = '{"id":"","data":{"type":""}}'
    expect(shown(schemas.frame(one, bytes(withDefault)))).toEqual(inFrame(258, Uint8Array.from([0, 0, 0])))
  })

  it.live("becomes a dead letter with the place at which it does not fit", function* () {
    const registry = yield* answering(found)
    const schemas = yield* opened({ type: "avro", registry: { url: registry.url }, definition: avro })
    yield* schemas.prepare([one])
    const wrong = { ...envelope(1), data: { type: 7 } }
    expect(shown(schemas.frame(one, bytes(JSON.stringify(wrong))))).toEqual({
      tag: "DeliveryRejected",
      why: 'the event does not fit the schema of subject events-value: "/data/type" must be "string"',
    })
  })
})

describe("a key", () => {
  const opening = Effect.fnUntraced(function* (key: Record<string, unknown>) {
    const registry = yield* answering(found)
    const schema = { type: "json", registry: { url: registry.url }, definition: "{}", key }
    const config = decode(schema, { tombstone: ["*.deleted"], key: "{{/data/object/id}}" })
    const ofKeys = config.schema && SchemaRegistry.ofKeys(config.schema)
    if (ofKeys === undefined) throw new Error("no schema")
    const keys = yield* SchemaRegistry.make({ schema: ofKeys, topic: config.topic })
    yield* keys.prepare([one])
    return { request: registry.requests[0] as Received, encode: encoder(config, () => 0, undefined, keys.frame) }
  })

  for (const [type, definition, encoded] of [
    ["json", '{"$schema":"http://json-schema.org/draft-07/schema#","type":"string"}', Buffer.from('"apt_1"')],
    ["avro", '"string"', Buffer.from("\napt_1")],
  ] as const) {
    it.live(`is a text of ${type} with the frame of its own subject, also in a tombstone`, function* () {
      const { request, encode } = yield* opening({ type })
      expect([request.url, bodyOf(request).schema]).toEqual(["/subjects/events-key", definition])
      expect(encode(one)).toMatchObject({ key: "apt_1", framedKey: inFrame(258, encoded) })
      const tombstone = encode(entry(1, { type: "client.deleted" }))
      expect(tombstone).toMatchObject({ value: null, framedKey: inFrame(258, encoded) })
      expect(encode(entry(1, { body: bytes("{}") }))).not.toHaveProperty("framedKey")
    })
  }

  it.live("that does not fit a schema of the user's makes a dead letter", function* () {
    const { encode } = yield* opening({ type: "json", subject: "ids", definition: '{"maxLength":3}' })
    const { failure } = encode(one)
    expect(failure?.reason).toMatchObject({ _tag: "DeliveryRejected", ofEvent: true })
    expect(failure?.message).toMatch(/schema of subject ids: the value must NOT have more than 3 characters/)
  })

  test("is not framed without a schema of its own", () => {
    expect(
      SchemaRegistry.ofKeys(decode({ type: "json", registry: { url: "http://127.0.0.1:1" } }).schema as never),
    ).toBeUndefined()
  })
})

describe("a record", () => {
  it.live("is signed over its whole value, and a tombstone has no frame", function* () {
    const registry = yield* answering(found)
    const schema = { type: "json", registry: { url: registry.url } }
    const sign = { scheme: "sender", secret: "one" }
    const more = { sign, tombstone: ["*.deleted"], key: "{{/data/object/id}}" }
    const schemas = yield* opened(schema, more)
    yield* schemas.prepare([one])
    const encode = encoder(decode(schema, more), () => 0, schemas.frame)
    const { headers, value } = encode(one)
    const own = new Map(headers).get("x-relay-signature") ?? ""
    expect(new Map(headers).has("x-service-signature")).toBe(false)
    expect(verify([{ name: "ours", hmac: hmacSha256("one") }], own, value ?? bytes(""), 0)).toEqual({
      ok: true,
      secret: "ours",
    })
    expect(encode(entry(2, { type: "client.deleted" }))).toMatchObject({ value: null })
  })

  test("has the subject in a preview, and the value without its frame", () => {
    const schema = { type: "json", registry: { url: "http://127.0.0.1:1" }, subject: "{{type}}/{{topic}}" }
    const record = preview("kafka", { brokers: ["b:9092"], topic: "events", schema })
    expect(record).toMatchObject({ subject: "appointment.created/events", value: envelope(1) })
    expect(record.headers).not.toHaveProperty("x-service-signature")
  })
})

const answers: ReadonlyArray<
  readonly [title: string, answer: Answer, constant: string, template: string, says: RegExp]
> = [
  ["an unknown subject", noSubject, "SinkMisconfigured", "DeliveryFailed", /has no such schema.*"autoRegister"/],
  ["an unknown schema", noSchema, "SinkMisconfigured", "DeliveryFailed", /has no such schema/],
  ["an incompatible schema", incompatible, "SinkMisconfigured", "DeliveryFailed", /answered 409.*incompatible/],
  [
    "a schema that is not valid",
    [422, { error_code: 42201, message: "Invalid schema" }],
    "SinkMisconfigured",
    "DeliveryFailed",
    /does not accept the schema/,
  ],
  [
    "the mode READONLY",
    [422, { error_code: 42205, message: "Subject events-value is in read-only mode" }],
    "SinkMisconfigured",
    "DeliveryFailed",
    /read-only: register the schema by hand/,
  ],
  [
    "a right that is missing",
    [403, { error_code: 40301, message: "User is denied operation Write on Subject: events-value" }],
    "SinkMisconfigured",
    "DeliveryFailed",
    /grant it/,
  ],
  [
    "wrong credentials",
    [401, { error_code: 401, message: "Unauthorized" }],
    "SinkMisconfigured",
    "SinkMisconfigured",
    /correct the credentials of "schema.registry"/,
  ],
  [
    "a leader that can't be reached",
    [500, { error_code: 50003, message: "Error while forwarding register schema request to the leader" }],
    "SinkUnavailable",
    "SinkUnavailable",
    /answered 500.*forwarding/,
  ],
  ["a gateway without a registry", [502, "<html>"], "SinkUnavailable", "SinkUnavailable", /answered 502/],
  ["a limit", [429, { error_code: 429 }, { "retry-after": "7" }], "SinkThrottled", "SinkThrottled", /answered 429/],
  ["another path", [404, "<html>"], "SinkMisconfigured", "SinkMisconfigured", /check "schema.registry.url"/],
  ["a media type that it refuses", [415, ""], "SinkMisconfigured", "SinkMisconfigured", /check "schema.registry.url"/],
  ["an answer that breaks off", [200, '{"id":'], "SinkUnavailable", "SinkUnavailable", /its answer broke off/],
  ["an id of more than four bytes", [200, { id: 2 ** 31 }], "SinkMisconfigured", "SinkMisconfigured", /a schema's id/],
  [
    "a web page",
    [200, "<html>", { "content-type": "text/html" }],
    "SinkMisconfigured",
    "SinkMisconfigured",
    /without a schema's id/,
  ],
  ["a redirect", [302, "", { location: "/login" }], "SinkMisconfigured", "SinkMisconfigured", /answered 302/],
]

describe("the registry's answer", () => {
  for (const [title, answer, constant, template, says] of answers) {
    it.live(`${title}: ${constant} for a constant subject, ${template} for one of a template`, function* () {
      const registry = yield* answering(answer)
      const schema = { type: "json", registry: { url: registry.url }, autoRegister: false }
      const reason = yield* Effect.flatMap(opened(schema), ({ prepare }) => reasonOf(prepare([one])))
      expect(reason?._tag).toBe(constant as never)
      expect(reason?.message).toMatch(says)
      expect(reason?.message).toContain(registry.url)
      const schemas = yield* opened({ ...schema, subject: "{{type}}" })
      const asked = yield* Effect.result(schemas.prepare([one]))
      const failure = Result.isFailure(asked) ? asked.failure : schemas.frame(one, one.event.body)
      expect(shown(failure)).toMatchObject({ tag: template, why: expect.stringMatching(says) })
    })
  }

  it.live("an incompatible schema at its registration stops events of its subject alone", function* () {
    const { url } = yield* serve(({ url }, response) => {
      const [status, body] = url.includes("client") ? (url.endsWith("versions") ? incompatible : noSchema) : found
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
    })
    const schemas = yield* opened({ type: "json", registry: { url }, subject: "{{type}}" })
    const other = entry(2, { type: "client.created" })
    yield* schemas.prepare([one, other])
    expect(shown(schemas.frame(one, one.event.body))).toBeInstanceOf(Buffer)
    expect(shown(schemas.frame(other, other.event.body))).toMatchObject({ tag: "DeliveryFailed" })
  })

  it.live("is asked again about a refused subject", function* () {
    const registry = yield* answering(noSchema, found)
    const schema = { type: "json", registry: { url: registry.url }, subject: "{{type}}", autoRegister: false }
    const { prepare, frame } = yield* opened(schema)
    yield* prepare([one])
    expect(shown(frame(one, one.event.body))).toMatchObject({ tag: "DeliveryFailed" })
    yield* prepare([one])
    expect(shown(frame(one, one.event.body))).toBeInstanceOf(Buffer)
  })

  it.effect("counts as absent after 5 seconds", function* () {
    const asked = yield* Deferred.make<void>()
    const { url } = yield* serve(() => Effect.runSync(Deferred.succeed(asked, undefined)))
    const { prepare } = yield* opened({ type: "json", registry: { url } })
    const reason = yield* Effect.forkChild(reasonOf(prepare([one])))
    yield* Deferred.await(asked)
    yield* TestClock.adjust("5 seconds")
    expect(yield* Fiber.join(reason)).toMatchObject({
      _tag: "SinkUnavailable",
      message: expect.stringContaining("5 seconds"),
    })
  })

  it.live("is not needed for a subject whose id is known", function* () {
    const registry = yield* answering(found, [503, ""])
    const schemas = yield* opened({ type: "json", registry: { url: registry.url }, subject: "{{type}}" })
    yield* schemas.prepare([one])
    const other = entry(2, { type: "client.created" })
    expect((yield* reasonOf(schemas.prepare([one, other])))?._tag).toBe("SinkUnavailable")
    yield* schemas.prepare([one, entry(3)])
    expect(shown(schemas.frame(one, one.event.body))).toBeInstanceOf(Buffer)
  })
})

describe("a request", () => {
  it.live("reads an answer that repeats a large schema", function* () {
    const registry = yield* answering([200, { schema: "s".repeat(500_000), id: 258 }])
    const schemas = yield* opened({ type: "json", registry: { url: registry.url } })
    yield* schemas.prepare([one])
    expect(shown(schemas.frame(one, one.event.body))).toBeInstanceOf(Buffer)
  })

  it.live("escapes the subject in its path", function* () {
    const registry = yield* answering(found)
    for (const subject of ["acme/events value", ".."]) {
      const { prepare } = yield* opened({ type: "json", registry: { url: registry.url }, subject })
      yield* prepare([one])
    }
    expect(registry.requests.map(({ url }) => url)).toEqual(["/subjects/acme%2Fevents%20value", "/subjects/__"])
  })

  it.live("has the user and password, the headers, or an access token", function* () {
    const tokens = yield* tokenEndpoint()
    const { tokenUrl } = tokens
    const registry = yield* answering(found, found, [401, ""], found)
    const oauth = { tokenUrl, clientId: client.id, clientSecret: client.secret }
    const headers = { authorization: `Bearer ${canary}`, "target-sr-cluster": "lsrc-1" }
    for (const more of [{ username: "relay", password: canary }, { headers }, { oauth }]) {
      const { prepare } = yield* opened({ type: "json", registry: { url: registry.url, ...more } })
      yield* prepare([one])
    }
    expect(registry.requests.map(({ headers }) => headers.authorization)).toEqual([
      `Basic ${btoa(`relay:${canary}`)}`,
      `Bearer ${canary}`,
      "Bearer canary-token-1",
      "Bearer canary-token-2",
    ])
    expect(registry.requests[1]?.headers["target-sr-cluster"]).toBe("lsrc-1")
  })

  it.live("goes over TLS by an authority of the config, and no secret is in a message", function* () {
    const directory = temporaryDirectory("schema-registry-")
    const { ca, issue } = makeAuthority(directory)
    const { url } = yield* serveTls(issue("registry", "IP:127.0.0.1").pem, (_, response) => {
      response.writeHead(403).end(JSON.stringify({ error_code: 403, message: `no ${canary}` }))
    })
    const registry = { url, username: "relay", password: canary }
    const { prepare } = yield* opened({ type: "json", registry: { ...registry, tls: { ca } } })
    const reason = yield* reasonOf(prepare([one]))
    expect(reason?.message).toContain("answered 403")
    expect(reason?.message).not.toContain(canary)
    const untrusted = yield* opened({ type: "json", registry })
    expect((yield* reasonOf(untrusted.prepare([one])))?.message).toContain('"schema.registry.tls"')
  })
})

describe("a check", () => {
  it.live("asks whether a missing schema would be compatible, and registers nothing", function* () {
    const registry = yield* answering(noSchema, [200, { is_compatible: false }])
    const { check } = yield* opened({ type: "json", registry: { url: registry.url } })
    expect(yield* reasonOf(check)).toMatchObject({
      _tag: "SinkMisconfigured",
      message: expect.stringMatching(/incompatible/),
    })
    expect(registry.requests.map(({ url }) => url)).toEqual([
      "/subjects/events-value",
      "/compatibility/subjects/events-value/versions/latest",
    ])
    const empty = yield* answering(noSubject)
    expect(
      yield* Effect.flatMap(opened({ type: "json", registry: { url: empty.url } }), ({ check }) => reasonOf(check)),
    ).toBeUndefined()
  })

  it.live("names the subjects of a template that the registry lacks", function* () {
    const registry = yield* answering([200, ["JSON"]], noSubject)
    const schema = { type: "json", registry: { url: registry.url }, subject: "{{resource}}", autoRegister: false }
    const { check, advise } = yield* opened(schema)
    expect(yield* reasonOf(check)).toBeUndefined()
    const advice = yield* advise(["client.created", "client.deleted", "block.created"])
    expect(advice).toHaveLength(2)
    expect(advice[0]).toMatch(/^subject (client|block): .*has no such schema/)
    expect(yield* advise(undefined)).toHaveLength(new Set(eventTypes.map((type) => type.split(".")[0])).size)
  })
})

describe("a config", () => {
  const registry = { url: "https://registry.example.com" }
  const problem = (schema: Record<string, unknown>, more: Record<string, unknown> = {}): string => {
    try {
      decode({ registry, ...schema }, more)
      return ""
    } catch (error) {
      return String(error)
    }
  }

  test("says what is wrong with it", () => {
    expect(problem({ type: "json" })).toBe("")
    expect(problem({ type: "avro" })).toContain('Avro needs a schema: write "definition": "file:PATH"')
    expect(problem({ type: "json", definition: "event.json" })).toContain("this is not JSON")
    expect(problem({ type: "json" }, { format: "template", body: {} })).toContain("a schema of your own")
    const twice = { ...registry, username: "u", password: "p", headers: { Authorization: "x" } }
    expect(problem({ type: "json", registry: twice })).toContain('with "username" this header')
  })

  it.live("with a definition that is no schema names the mistake", function* () {
    for (const [type, definition] of [
      ["avro", '{"type":"recor"}'],
      ["json", '{"type":"objec"}'],
    ] as const) {
      const server = yield* answering(found)
      const schemas = yield* opened({ type, registry: { url: server.url }, definition })
      expect(yield* reasonOf(schemas.prepare([one]))).toMatchObject({
        _tag: "SinkMisconfigured",
        message: expect.stringContaining(`"schema.definition" is not a schema of type ${type}`),
      })
    }
  })
})
