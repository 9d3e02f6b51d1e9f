/** The keys that the configs of message brokers share. */
import { Effect, Schema } from "effect"
import * as Address from "../config/Address.ts"
import { oneOf, textOrShapeOr } from "../config/schema/Keys.ts"

/** Says what is wrong with a text that is no host and port; `thing` is what the config calls it. */
export const hostProblem =
  (thing: string, example: string) =>
  (text: string): string | undefined => {
    if (Address.parse(text) !== undefined) return undefined
    return /^[a-z]+:\/\//i.test(text)
      ? `a ${thing} is host and port alone, such as "${example}"`
      : `this is no ${thing}: write host and port, such as "${example}"`
  }

/** A host and port. One that is written wrong may hold a password, so none is shown. */
export const host = (
  problem: (text: string) => string | undefined,
  doc: { readonly description?: string; readonly examples: ReadonlyArray<string> },
) =>
  Schema.String.annotate({ ...doc, shown: false }).check(
    Schema.makeFilter(problem, { toJsonSchema: () => ({ pattern: Address.pattern }) }),
  )

/** The hosts to connect to, at least one: `none` says why. */
export const hosts = (thing: string, example: string, description: string, none: string) => {
  const port = example.replace(/^.*:/, "")
  const together = `each ${thing} stands in its own quotes: ["one:${port}", "two:${port}"]`
  const problem = hostProblem(thing, example)
  return Schema.Array(
    host((text) => problem(text) && (text.includes(",") ? together : problem(text)), { examples: [example] }),
  )
    .annotate({ description, examples: [[`127.0.0.1:${port}`]] })
    .check(Schema.isMinLength(1, { message: none }))
}

/** The template of the key by which `order` keeps events apart. The lane reads it too. */
export const key = textOrShapeOr("A template over the envelope: what `order` keeps apart", "{{account_id}}")

type Headers = Readonly<Record<string, string>>

/** Headers of the config's own, by name; their values are templates. `problem` is what a broker has against some. */
export const headers = (problem: (headers: Headers) => Schema.FilterIssue | undefined = () => undefined) =>
  Schema.Record(Schema.String, Schema.String.annotate({ template: true, shown: true }))
    .annotate({ description: "Headers beside those of the relay; values may hold placeholders", headerNames: true })
    .check(Schema.makeFilter(problem))
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))

/** The key for the format of the body and the headers. */
export const format = oneOf(
  "The signed bytes both times; with `cloudevents` the headers are those of CloudEvents 1.0",
  ["raw", "cloudevents"],
  "raw",
)
