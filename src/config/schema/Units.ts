/**
 * Durations, sizes, addresses and rates as a person writes them.
 *
 * Each is text with one meaning, or an error that shows how to write it. The
 * text's own schema carries description, pattern, examples and default, so the
 * generated JSON Schema tells an editor as much as the error tells a person.
 */
import { ByteSize, Duration, Effect, Option, Schema, SchemaGetter } from "effect"
import * as Address from "../Address.ts"

/** What the reference and the JSON Schema say about a key. */
export interface Doc {
  readonly description: string
  readonly default?: string
  readonly examples?: ReadonlyArray<string>
}

/** One kind of value: how it is parsed, and the error when it can't be. */
interface Word<A> {
  readonly kind: string
  /** How to write it. */
  readonly how: string
  readonly pattern: string
  readonly examples: ReadonlyArray<string>
  /** The value, or what is wrong; an empty text stands for the usual message. */
  readonly parse: (text: string) => A | Problem
  readonly format: (value: A) => string
}

class Problem {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

const word =
  <A>({ kind, how, pattern, examples, parse, format }: Word<A>) =>
  (doc: Doc) => {
    const reads = Schema.makeFilter(
      (text: string) => {
        const parsed = parse(text)
        return parsed instanceof Problem ? parsed.text || `this is no ${kind}: ${how}` : undefined
      },
      { expected: `${kind === "address" ? "an" : "a"} ${kind}: ${how}`, toJsonSchema: () => ({ pattern }) },
    )
    return Schema.String.annotate({ examples, shown: true, ...doc })
      .check(reads)
      .pipe(
        Schema.decodeTo(
          Schema.declare((_): _ is A => true),
          {
            // The check above has succeeded, so this is a value.
            decode: SchemaGetter.transform((text: string): A => parse(text) as A),
            encode: SchemaGetter.transform((value: A) => format(value)),
          },
        ),
      )
  }

/** Common abbreviations, and the units they mean. */
const durationUnits: Readonly<Record<string, string>> = {
  ms: "millis",
  msec: "millis",
  milliseconds: "millis",
  s: "seconds",
  sec: "seconds",
  secs: "seconds",
  second: "seconds",
  seconds: "seconds",
  m: "minutes",
  min: "minutes",
  mins: "minutes",
  minutes: "minutes",
  h: "hours",
  hr: "hours",
  hrs: "hours",
  hours: "hours",
  d: "days",
  days: "days",
  w: "weeks",
  weeks: "weeks",
}

const sizeUnits: Readonly<Record<string, string>> = {
  b: "B",
  k: "KiB",
  kb: "KiB",
  kib: "KiB",
  m: "MiB",
  mb: "MiB",
  mib: "MiB",
  g: "GiB",
  gb: "GiB",
  gib: "GiB",
  t: "TiB",
  tb: "TiB",
  tib: "TiB",
}

/** A suggestion for texts such as `30s` and `10 mb`; empty if there is none. */
const meant = (text: string, units: Readonly<Record<string, string>>, kind: string): string => {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*$/.exec(text)
  const unit = match === null ? undefined : units[(match[2] ?? "").toLowerCase()]
  return match === null || unit === undefined ? "" : `this is no ${kind}: did you mean "${match[1]} ${unit}"?`
}

const duration = word<Duration.Duration>({
  kind: "duration",
  how: 'write a number and a unit, such as "30 seconds", "10 minutes" or "7 days"',
  pattern: "^\\d+(\\.\\d+)? (millis?|seconds?|minutes?|hours?|days?|weeks?)$",
  examples: ["500 millis", "30 seconds", "10 minutes", "7 days"],
  parse: (text) => {
    const parsed = Duration.fromInput(text as Duration.Input)
    if (Option.isNone(parsed) || !Duration.isFinite(parsed.value))
      return new Problem(meant(text, durationUnits, "duration"))
    return Duration.toMillis(parsed.value) >= 1 ? parsed.value : new Problem("a duration is at least one millisecond")
  },
  format: (value) => `${Duration.toMillis(value)} millis`,
})

const bytes = word<number>({
  kind: "size",
  how: 'write a number and a unit, such as "512 KiB", "1 MiB" or "10 GB"',
  pattern: "^\\d+(\\.\\d+)? ?(B|bytes?|kB|MB|GB|TB|KiB|MiB|GiB|TiB)$",
  examples: ["512 KiB", "1 MiB", "10 GiB"],
  parse: (text) => {
    const parsed = Option.flatMap(ByteSize.fromString(text), ByteSize.toNumber)
    if (Option.isNone(parsed)) return new Problem(meant(text, sizeUnits, "size"))
    return parsed.value > 0 ? parsed.value : new Problem("a size is at least one byte")
  },
  format: (value) => `${value} B`,
})

const address = word<Address.Address>({
  kind: "address",
  how: 'write host and port, such as "127.0.0.1:8080", "0.0.0.0:8080" or "[::1]:8080"',
  pattern: Address.pattern,
  examples: ["127.0.0.1:8080", "0.0.0.0:8080", "[::1]:8080"],
  parse: (text) => {
    const address = Address.parse(text)
    if (address === undefined) return new Problem("")
    return address.port <= 65_535 ? address : new Problem("a port is at most 65535")
  },
  format: Address.format,
})

export interface Rate {
  readonly events: number
  readonly per: Duration.Duration
}

const rate = word<Rate>({
  kind: "rate",
  how: 'write events per unit of time, such as "100/second" or "600/minute"',
  pattern: "^[1-9]\\d*/(second|minute|hour|day)$",
  examples: ["100/second", "600/minute"],
  parse: (text) => {
    const match = /^([1-9]\d{0,8})\/(second|minute|hour|day)$/.exec(text)
    if (match === null) return new Problem("")
    return { events: Number(match[1]), per: Duration.fromInputUnsafe(`1 ${match[2] as "second"}`) }
  },
  format: ({ events, per }) => `${events} per ${Duration.toMillis(per)} millis`,
})

/** An ISO 8601 time, decoded to epoch milliseconds. */
const time = word<number>({
  kind: "time",
  how: 'write it in full and in UTC, such as "2026-12-01T00:00:00Z"',
  pattern: "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}(:\\d{2}(\\.\\d+)?)?(Z|[+-]\\d{2}:\\d{2})$",
  examples: ["2026-12-01T00:00:00Z"],
  parse: (text) => {
    if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text)) return new Problem("")
    const at = Date.parse(text)
    return Number.isNaN(at) ? new Problem("there is no such day or time") : at
  },
  format: (at) => new Date(at).toISOString(),
})

const withOr = <S extends Schema.Codec<unknown, string>>(make: (doc: Doc) => S) => ({
  required: make,
  or: (value: string, description: string) =>
    make({ description, default: value }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(value))),
})

export const Units = {
  duration: withOr(duration),
  bytes: withOr(bytes),
  address: withOr(address),
  rate,
  time,
}

/** The address that a text names; `undefined` when it names none. */
export const parseAddress = (text: unknown): Address.Address | undefined =>
  Option.getOrUndefined(Schema.decodeUnknownOption(Units.address.required({ description: "" }))(text))
