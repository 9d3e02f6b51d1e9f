/** The schema of a route's `where`: conditions on fields of the envelope. */
import { Schema, SchemaTransformation } from "effect"
import * as Numbers from "../../event/Numbers.ts"
import { Text } from "./Keys.ts"

/** A number of any digits, which JSON Schema knows as any other. */
const number = Schema.declare(Numbers.isNumber).annotate({
  shown: true,
  toCodecJson: () =>
    Schema.link<number | Numbers.Long>()(
      Schema.Finite,
      SchemaTransformation.transform<number | Numbers.Long, number>({
        decode: (value) => value,
        encode: (value) => Number(Numbers.textOf(value)),
      }),
    ),
})

const scalar = Schema.Union([Schema.String.annotate({ shown: true }), number, Schema.Boolean, Schema.Null]).annotate({
  expected: "text, a number, true, false or null",
})

const some = { message: "this list is empty, so the condition says nothing" }
const scalars = Schema.Array(scalar).check(Schema.isMinLength(1, some))

const tests = {
  oneOf: Schema.optionalKey(scalars.annotate({ description: "It is one of these values" })),
  prefix: Schema.optionalKey(
    Schema.Union([Text, Schema.Array(Text).check(Schema.isMinLength(1, some))]).annotate({
      description: "It is a text that begins with this, or with one of these",
      expected: "text, or a list of texts",
    }),
  ),
  exists: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "`true`: the field exists, even if it is null; `false`: it does not" }),
  ),
}

const values = [scalar, scalars] as const
const expected = "a value, a list of values, or an object of conditions"

const Not = Schema.Union([...values, Schema.Struct(tests)]).annotate({
  description: "None of this holds: a value, a list of values, or conditions; so it holds if there is no such field",
  expected,
})

export const Where = Schema.Record(
  Schema.String,
  Schema.Union([...values, Schema.Struct({ ...tests, not: Schema.optionalKey(Not) })]).annotate({ expected }),
).annotate({
  description:
    "JSON Pointers into the envelope, each with a value, a list of values of which it is one, or conditions that all hold; `jmespath` with an expression that holds",
})
