/** Decides which sink an uncaught error belongs to, by its async context and its stack. */
import { describe, expect, test } from "bun:test"
import { culprits, type Owner } from "../../src/sinks/Containment.ts"

const owner = (type: string, libraries: ReadonlyArray<string> = []): Owner => ({ type, libraries, broke: () => {} })
const kafka = owner("kafka", ["@platformatic/", "kafkajs"])
const other = owner("kafka", ["@platformatic/", "kafkajs"])
const rabbit = owner("rabbitmq", ["amqplib"])
const slack = owner("slack")
const known = [kafka, other, rabbit, slack]

const stack = (...places: ReadonlyArray<string>) =>
  ["Error: at node_modules/amqplib/lib/x.js", ...places.map((place) => `    at #on (${place}:1:2)`)].join("\n")
const library = "/opt/relay/node_modules/@platformatic/kafka/dist/network/connection.js"

describe("an error that nobody caught", () => {
  test("belongs to the sink in whose context it was thrown", () => {
    expect(culprits(stack("node:net"), rabbit, known)).toEqual([rabbit])
    expect(culprits(stack("node_modules/effect/src/internal/effect.ts"), slack, known)).toEqual([slack])
  })

  test("belongs to the sink in whose context it is, if the stack names a library of several", () => {
    expect(culprits(stack("node:net", library), other, known)).toEqual([other])
  })

  test("belongs to all sinks of the library in the stack, if there is no context", () => {
    expect(culprits(stack("node:net", library), undefined, known)).toEqual([kafka, other])
    expect(culprits(stack("node_modules/kafkajs/src/network/socket.js"), undefined, known)).toEqual([kafka, other])
    expect(culprits(stack("src/sinks/rabbitmq/AmqpSession.ts"), undefined, known)).toEqual([rabbit])
    expect(culprits(stack("src/sinks/alerts/slack/Slack.ts"), undefined, known)).toEqual([slack])
  })

  test("belongs to the sink that the stack names, even in another sink's context", () => {
    expect(culprits(stack("node_modules/amqplib/lib/connection.js"), slack, known)).toEqual([rabbit])
  })

  test("belongs to nobody if neither the stack nor the context names a sink", () => {
    expect(culprits(stack("node:net"), undefined, known)).toEqual([])
    expect(culprits("", undefined, known)).toEqual([])
    expect(culprits(stack("src/ingest/Ingest.ts"), undefined, known)).toEqual([])
  })

  test("belongs to nobody if the relay's own code threw it in a sink's context", () => {
    expect(culprits(stack("src/delivery/lane/Lane.ts", "node:net"), kafka, known)).toEqual([])
  })

  test("belongs to nobody if a journal is part of it, in any context", () => {
    expect(culprits(stack("node_modules/pg/lib/client.js"), kafka, known)).toEqual([])
    expect(culprits(stack("node_modules/pg-protocol/dist/parser.js", library), kafka, known)).toEqual([])
    expect(culprits(stack("src/journal/sqlite/commit/Engine.ts", library), kafka, known)).toEqual([])
  })
})
