/** Bodies that every sink can build from an event, by the keys of its config. */
import { Effect } from "effect"
import * as Jmespath from "../../src/formats/jmespath/Jmespath.ts"
import { entry, envelope } from "./samples.ts"

interface Shape {
  readonly title: string
  readonly config: { readonly format: "template"; readonly body: unknown }
  /** The body of `entry(1)` as a target receives it. */
  readonly value: unknown
}

await Effect.runPromise(Jmespath.load)

const { data } = envelope(1)

export const shapes: ReadonlyArray<Shape> = [
  {
    title: "a template makes the body",
    config: { format: "template", body: { id: "{{id}}", what: "{{resource}} of {{account_id}}" } },
    value: { id: "evt_1", what: "appointment of acct_1" },
  },
  {
    title: "an expression makes the body",
    config: { format: "template", body: { jmespath: "{id: id, object: data.object}" } },
    value: { id: "evt_1", object: data.object },
  },
]

/** An expression without a result gives the JSON value `null`. */
export const nothing = { format: "template", body: { jmespath: "data.nowhere" } } as const

/** A body twice as large as the text of the event's object. */
export const doubled = { format: "template", body: { text: "{{/data/object/text}}{{/data/object/text}}" } } as const

/** An event whose object has a text of this size. */
export const withText = (size: number) =>
  entry(1, { body: Buffer.from(JSON.stringify(envelope(1, { text: "x".repeat(size) }))) })
