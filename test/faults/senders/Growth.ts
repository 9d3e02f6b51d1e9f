/**
 * Input that is made to be slow: eight times as much of it may cost about eight times as much, and never sixty-four
 * times.
 *
 * **Guarantee.** Nothing that a sender can send, and no config, takes time by the square of its length. Work that takes
 * too little time to matter passes, whatever its growth: a machine that stumbles is not the relay's fault.
 */
import { Effect } from "effect"
import { load } from "../../../src/config/load/Load.ts"
import * as Envelope from "../../../src/event/Envelope.ts"
import * as Numbers from "../../../src/event/Numbers.ts"
import { hmacSha256, verify } from "../../../src/event/Signature.ts"
import * as Template from "../../../src/formats/Template.ts"
import { journalTypes } from "../../../src/journal/Journals.ts"
import { Duplicates } from "../../../src/journal/sqlite/commit/Duplicates.ts"
import * as Pattern from "../../../src/routing/Pattern.ts"
import { sinkTypes } from "../../../src/sinks/SinkTypes.ts"
import { config, readFile } from "../../config/fixture.ts"
import { event } from "../../journal/samples.ts"
import { bytes, entry, envelope } from "../../sinks/samples.ts"
import type { Line, Outcome } from "../Line.ts"

type Work = (size: number) => unknown

const body = (make: (size: number) => string): Work => {
  return (size) => Envelope.decode(bytes(make(size)))
}
const objects = (make: (size: number) => unknown): Work => body((size) => JSON.stringify(envelope(1, make(size))))
const signed: Work = (size) =>
  verify([{ name: "a", hmac: hmacSha256("a") }], `sha256=${"A".repeat(size)}`, bytes("x".repeat(size)), 0)
const pattern =
  (make: (size: number) => string, type: (size: number) => string = (size) => `${"a".repeat(size)}.b`): Work =>
  (size) => {
    const source = make(size)
    return Pattern.problem(source) ?? Pattern.make(source).matches(type(size))
  }
const template =
  (make: (size: number) => string, place: Template.Place = "text"): Work =>
  (size) => {
    const text = make(size)
    const event = entry(1, {
      id: "%".repeat(size),
      body: bytes(JSON.stringify(envelope(1, { id: "\r\n".repeat(size) }))),
    })
    return [Template.problem(text), Template.compile(text, place).render(event)]
  }
const loaded =
  (make: (size: number) => string): Work =>
  (size) => {
    const files = readFile({ "relay.config.json": make(size) })
    return Effect.runPromiseExit(load("relay.config.json", { sinkTypes, journalTypes, env: {}, readFile: files }))
  }
const remembered =
  (offer: (duplicates: Duplicates, index: number) => void): Work =>
  (size) => {
    const duplicates = new Duplicates({ count: size, age: 3_600_000 })
    for (let index = 0; index < size; index++) offer(duplicates, index)
  }
const each = <A>(size: number, make: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: size }, (_, i) => make(i))
const keyed = (size: number, value: unknown) => Object.fromEntries(each(size, (index) => [`k${index}`, value] as const))

/** The works to measure, each with its small size. */
const works: ReadonlyArray<readonly [name: string, size: number, work: Work]> = [
  ["a long signature", 20_000, signed],
  ["a body of brackets", 50_000, body((size) => "[".repeat(size))],
  ["a body of backslashes", 50_000, body((size) => `"${"\\".repeat(size)}`)],
  ["a body of digits", 20_000, body((size) => "9".repeat(size))],
  ["a number of zeros", 20_000, (size) => Numbers.parse(`{"n":1.${"0".repeat(size)}1}`)],
  ["a nested object", 2_000, body((size) => `${'{"a":'.repeat(size)}1${"}".repeat(size)}`)],
  ["an object of many keys", 10_000, objects((size) => keyed(size, 0))],
  ["a long text", 100_000, objects((size) => ({ note: "n".repeat(size) }))],
  ["a pattern of stars and letters", 400, pattern((size) => "*a".repeat(size))],
  ["a pattern of choices", 100, pattern((size) => "{a,b}".repeat(size))],
  ["a pattern of nested choices", 50, pattern((size) => `${"{a,".repeat(size)}b${"}".repeat(size)}`)],
  [
    "a pattern of `**`",
    200,
    pattern(
      (size) => each(size, () => "**").join("."),
      (size) => each(size, () => "a").join("."),
    ),
  ],
  [
    "a long type",
    20_000,
    pattern(
      () => "**.*a*b*.c",
      (size) => "a".repeat(size),
    ),
  ],
  [
    "a type of many segments",
    5_000,
    pattern(
      () => "**.b.**.c",
      (size) => "b.".repeat(size).concat("d"),
    ),
  ],
  ["a template of braces", 20_000, template((size) => "{{".repeat(size))],
  ["a template that opens over and over", 20_000, template((size) => "{{a".repeat(size))],
  ["a value of what a header can't hold", 20_000, template(() => "{{/data/object/id}}", "header")],
  ["a value of what a URL can't hold", 20_000, template(() => "{{/data/object/id}}{{id}}", "url")],
  ["a config of unknown keys", 500, loaded((size) => config(keyed(size, 1)))],
  ["a config of equal keys", 500, loaded((size) => `{${'"listen":"a",\n'.repeat(size)}}`)],
  [
    "many bodies under one id",
    5_000,
    remembered((duplicates, index) => {
      if (duplicates.find(event("evt_1"), index) === "new") duplicates.add(index, 0)
    }),
  ],
  [
    "keys that end alike",
    5_000,
    remembered((duplicates, index) => duplicates.restore({ hi: index, lo: 1, bodyCrc: 1 }, 0)),
  ],
  [
    "a config of routes",
    100,
    loaded((size) =>
      config({
        sinks: keyed(size, { type: "console" }),
        routes: each(size, (n) => ({ name: `r${n}`, match: n % 2 === 0 ? "client.*" : "appointment.**", to: `k${n}` })),
      }),
    ),
  ],
  [
    "a config of sinks that nothing goes to",
    300,
    loaded((size) => config({ sinks: keyed(size, { type: "console" }) })),
  ],
  [
    "a config of wrong routes",
    100,
    loaded((size) => config({ routes: each(size, (n) => ({ name: `r${n}`, match: "nobody.*", to: "x" })) })),
  ],
  [
    "a config of one long pattern",
    300,
    loaded((size) => config({ routes: [{ name: "a", match: "*a".repeat(size), to: "audit" }] })),
  ],
  ["a config of open braces", 20_000, loaded((size) => "{".repeat(size))],
  ["a config of missing quotes", 500, loaded((size) => `{${'"a: 1,\n'.repeat(size)}}`)],
  ["a config of missing commas", 500, loaded((size) => `{${'"a": [1 "b"]\n'.repeat(size)}}`)],
  ["a config of open references", 5_000, loaded((size) => config({ listen: "${A".repeat(size) }))],
  ["a config of blanks", 20_000, loaded((size) => `{"a"${"\n ".repeat(size)}1}`)],
  ["a config of open comments", 20_000, loaded((size) => "/*".repeat(size))],
]

const factor = 8
/** A linear cost grows by 8 and a square by 64. The limit between them leaves room for noise. */
const limit = 32
const worthTelling = 100

/** The best of three, in milliseconds. */
const cost = async (work: Work, size: number): Promise<number> => {
  let best = Number.POSITIVE_INFINITY
  for (let time = 0; time < 3; time++) {
    const began = performance.now()
    await work(size)
    best = Math.min(best, performance.now() - began)
  }
  return best
}

const run = async (): Promise<Outcome> => {
  const broken: Array<string> = []
  let [slowest, slowestName] = [0, ""]
  for (const [name, size, work] of works) {
    const [little, much] = [await cost(work, size), await cost(work, size * factor)]
    const ratio = much / Math.max(little, 0.01)
    if (much > worthTelling && ratio > limit) {
      broken.push(`${name}: ${size} of it ${little.toFixed(1)} ms, ${factor} times as much ${much.toFixed(0)} ms`)
    }
    if (much > slowest) [slowest, slowestName] = [much, name]
  }
  const notes = [`the slowest: ${slowestName}, ${slowest.toFixed(0)} ms`]
  return { rounds: works.length, acknowledged: 0, lost: 0, duplicates: 0, broken, notes }
}

export const lines: ReadonlyArray<Line> = [{ name: "growth", fault: "input that is made to be slow", run }]
