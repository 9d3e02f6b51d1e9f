/** Framed values on Apache Kafka, with schemas from Apicurio Registry, decoded by Confluent's client for Python. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { Duration, Effect } from "effect"
import { eventTypes } from "../../../src/event/EventType.ts"
import { whole } from "../../journal/whole.ts"
import { it } from "../../lib/effect.ts"
import { writeConfig } from "../../lib/kit.ts"
import { relay } from "../../lib/relay.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { consume, type Registry, startRegistry } from "../../parts/Apicurio.ts"
import { makeTopic } from "../../parts/Topics.ts"
import { bytes, entry, envelope, reasonOf } from "../samples.ts"
import { clients, openKafka, withBroker } from "./kafkaSink.ts"
import { lake, lanes, settled } from "./load.ts"

/** Seconds of the registry's outage. The long run has RELAY_AWAY=60. */
const away = Number(process.env.RELAY_AWAY ?? 0)

const string = { type: "string" }
const avro = JSON.stringify({
  type: "record",
  name: "Event",
  namespace: "com.example",
  fields: [
    { name: "id", ...string },
    { name: "account_id", ...string },
    { name: "version", ...string },
    { name: "created_at", ...string },
    {
      name: "data",
      type: {
        type: "record",
        name: "Data",
        fields: [
          { name: "type", ...string },
          { name: "object", type: { type: "map", values: "string" } },
        ],
      },
    },
  ],
})

const drafts = [
  "http://json-schema.org/draft-07/schema#",
  "https://json-schema.org/draft/2019-09/schema",
  "https://json-schema.org/draft/2020-12/schema",
]

/** A JSON schema that is incompatible with the schema of an envelope. */
const otherJson = { schemaType: "JSON", schema: '{"type":"object","properties":{"id":{"type":"integer"}}}' }

const bodyOf = (sequence: number, type: string, object: unknown = { id: `obj_${sequence}` }) => ({
  ...envelope(sequence),
  data: { type, object },
})
const eventOf = (sequence: number, type: string, object?: unknown) =>
  entry(sequence, { type, body: bytes(JSON.stringify(bodyOf(sequence, type, object))) })

const all = eventTypes.map((type, index) => ({ type, sequence: index + 1 }))

withBroker("a Kafka sink with a schema registry", (broker) => {
  const cwd = temporaryDirectory("schema-registry-")
  let registry: Registry
  beforeAll(async () => {
    registry = await startRegistry()
  }, 300_000)
  afterAll(() => registry.stop())

  it.live("checks values by schemas of each draft", function* () {
    for (const $schema of drafts) {
      const topic = yield* Effect.promise(() => makeTopic(broker().plain))
      const definition = JSON.stringify({
        $schema,
        type: "object",
        properties: { id: { type: "string", maxLength: 5 } },
      })
      const schema = { type: "json", registry: { url: registry.url }, definition }
      const sink = yield* openKafka(() => ({ brokers: [broker().plain], topic, schema }))
      const failures = yield* sink.send([eventOf(1, "client.created"), eventOf(10, "client.created")])
      expect([...failures].map(([index, { message }]) => [index, message])).toEqual([
        [1, expect.stringContaining(`subject ${topic}-value: "/id" must NOT have more than 5 characters`)],
      ])
    }
  })

  it.live(
    "waits in its lane until a person has corrected a refused schema, and loses nothing",
    function* () {
      const topic = yield* Effect.promise(() => makeTopic(broker().plain))
      const path = `/subjects/${topic}-value`
      const body = JSON.stringify(otherJson)
      yield* Effect.promise(() => registry.ask(`${path}/versions`, { method: "POST", body }))
      const config = () => ({
        topic,
        brokers: [broker().plain],
        schema: { type: "json", registry: { url: registry.url } },
      })
      yield* Effect.gen(function* () {
        const journal = yield* whole
        for (const { sequence, type } of all) yield* journal.append(eventOf(sequence, type).event, ["lake"])
        while ((yield* lake)?.condition !== "misconfigured") yield* Effect.sleep("20 millis")
        expect(yield* lake).toMatchObject({ backlog: all.length, deadLetters: 0 })
        yield* Effect.promise(() => registry.ask(path, { method: "DELETE" }))
        yield* settled
        expect(yield* lake).toMatchObject({ deadLetters: 0, retrying: 0 })
      }).pipe(Effect.provide(lanes("platformatic", config)))
      const decoded = yield* Effect.promise(() => consume(broker().plain, registry, all.length, [topic]))
      expect(decoded).toHaveLength(all.length)
    },
    60_000,
  )

  test("relay validate reaches the registry, and names subjects that it lacks or would refuse", async () => {
    const body = JSON.stringify(otherJson)
    await registry.ask("/subjects/refused/versions", { method: "POST", body })
    const topic = await makeTopic(broker().plain)
    const validated = async (schema: Record<string, unknown>) => {
      const sink = { type: "kafka", brokers: [broker().plain], topic, schema: { type: "json", ...schema } }
      const { config } = await writeConfig(cwd, { lake: sink })
      const { code, stdout, stderr } = await relay(["validate", "-c", config], { cwd })
      return { code, said: stdout + stderr }
    }
    const { url } = registry
    expect(await validated({ registry: { url } })).toMatchObject({ code: 0 })
    const refused = await validated({ registry: { url }, subject: "refused" })
    expect(refused.code).toBe(1)
    expect(refused.said).toContain("the schema is incompatible with the subject's earlier versions")
    const lacking = await validated({ registry: { url }, subject: "{{resource}}", autoRegister: false })
    expect(lacking.said).toContain("subject appointment: ")
    expect(lacking.said).toContain("the subject has no such schema")
    const away = await validated({ registry: { url: "http://127.0.0.1:1" } })
    expect(away.code).toBe(1)
    expect(away.said).toContain("schema registry http://127.0.0.1:1 can't be reached")
  })

  for (const client of clients) {
    for (const type of ["json", "avro"] as const) {
      const schemaOf = (more: Record<string, unknown> = {}) => ({
        type,
        registry: { url: registry.url },
        ...(type === "avro" && { definition: avro }),
        ...more,
      })
      const open = (topic: string, more: Record<string, unknown> = {}) =>
        openKafka(() => ({ client, brokers: [broker().plain], topic, schema: schemaOf(more) }))

      describe(`${type} by ${client}`, () => {
        for (const subject of ["{{topic}}-value", "{{topic}}-{{type}}"]) {
          it.live(
            `all event types by the subject ${subject}: events wait while the registry is away, and are decoded by its schemas`,
            function* () {
              const topic = yield* Effect.promise(() => makeTopic(broker().plain))
              yield* Effect.promise(registry.cut)
              const config = () => ({ topic, brokers: [broker().plain], schema: schemaOf({ subject }) })
              yield* Effect.gen(function* () {
                const journal = yield* whole
                for (const { sequence, type } of all) yield* journal.append(eventOf(sequence, type).event, ["lake"])
                while ((yield* lake)?.lastFailure === undefined) yield* Effect.sleep("20 millis")
                expect(yield* lake).toMatchObject({ backlog: all.length, deadLetters: 0 })
                yield* Effect.sleep(Duration.seconds(away))
                yield* Effect.promise(registry.restore)
                yield* settled
                expect(yield* lake).toMatchObject({ deadLetters: 0, retrying: 0 })
              }).pipe(Effect.provide(lanes(client, config)))
              const decoded = yield* Effect.promise(() => consume(broker().plain, registry, all.length, [topic]))
              expect(decoded.map(({ value }) => value)).toEqual(all.map(({ sequence, type }) => bodyOf(sequence, type)))
            },
            60_000 + away * 1_000,
          )
        }

        it.live(
          "waits for a person if the registry refuses the schema as incompatible, and sends after a correction",
          function* () {
            const topic = yield* Effect.promise(() => makeTopic(broker().plain))
            const subject = `${topic}-value`
            const earlier =
              type === "avro"
                ? { schema: avro.replace('"name":"id","type":"string"', '"name":"id","type":"int"') }
                : otherJson
            const body = JSON.stringify(earlier)
            yield* Effect.promise(() => registry.ask(`/subjects/${subject}/versions`, { method: "POST", body }))
            const sink = yield* open(topic)
            for (const refused of [sink.check, sink.send([eventOf(1, "client.created")])]) {
              const reason = yield* reasonOf<unknown>(refused)
              expect(reason?._tag).toBe("SinkMisconfigured")
              expect(reason?.message).toMatch(/the schema is incompatible with the subject's earlier versions/)
            }
            yield* Effect.promise(() => registry.ask(`/subjects/${subject}`, { method: "DELETE" }))
            expect(yield* sink.send([eventOf(1, "client.created")])).toEqual(new Map())
          },
        )

        it.live("refuses an event that does not fit alone, and sends the others of its batch", function* () {
          const topic = yield* Effect.promise(() => makeTopic(broker().plain))
          const sink = yield* open(topic)
          const batch = [
            eventOf(1, "client.created"),
            eventOf(2, "client.created", "text"),
            eventOf(3, "client.updated"),
          ]
          const failures = yield* sink.send(batch)
          expect([...failures.keys()]).toEqual([1])
          expect(failures.get(1)?.reason).toMatchObject({ _tag: "DeliveryRejected", ofEvent: true })
          expect(failures.get(1)?.message).toContain(`subject ${topic}-value: "/data/object" must be`)
          const decoded = yield* Effect.promise(() => consume(broker().plain, registry, 2, [topic]))
          expect(decoded.map(({ value }) => value)).toEqual(
            [1, 3].map((n) => bodyOf(n, n === 1 ? "client.created" : "client.updated")),
          )
        })

        it.live("frames keys by a schema of their own", function* () {
          const topic = yield* Effect.promise(() => makeTopic(broker().plain, 6))
          const sink = yield* open(topic, { key: { type } })
          yield* sink.check
          expect(yield* sink.send([eventOf(1, "client.created"), eventOf(2, "client.created")])).toEqual(new Map())
          const decoded = yield* Effect.promise(() => consume(broker().plain, registry, 2, [topic]))
          expect(decoded.map(({ key, value }) => [key, value])).toEqual(
            [1, 2].map((n) => ["acct_1", bodyOf(n, "client.created")]),
          )
        })

        it.live("retries events of an unknown subject, and later events of their key with them", function* () {
          const topic = yield* Effect.promise(() => makeTopic(broker().plain))
          const known = yield* open(topic, { subject: "{{topic}}-{{type}}" })
          yield* known.send([eventOf(1, "client.updated")])
          const sink = yield* open(topic, { subject: "{{topic}}-{{type}}", autoRegister: false })
          const other = eventOf(4, "client.updated")
          const failures = yield* sink.send([
            eventOf(2, "client.created"),
            eventOf(3, "client.updated"),
            { ...other, event: { ...other.event, accountId: "acct_2" } },
          ])
          expect([...failures].map(([index, { reason }]) => [index, reason._tag])).toEqual([
            [0, "DeliveryFailed"],
            [1, "DeliveryFailed"],
          ])
          expect(failures.get(0)?.message).toContain("has no such schema")
        })
      })
    }
  }
})
