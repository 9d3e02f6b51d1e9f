/**
 * Durations, sizes, addresses and rates as a person writes them.
 *
 * Each is text with one meaning, or an error that shows how to write it. The
 * text's own schema carries description, pattern, examples and default, so the
 * generated JSON Schema tells an editor as much as the error tells a person.
 */
import { ByteSize, Duration, Effect, Option, Schema, SchemaGetter } from "effect"
import * as Address from "../Address.ts"

/** The reference and the JSON Schema say this about a key. */
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
      { expected: `${kind === "address" ? "an" : "a"} ${kind}`, toJsonSchema: () => ({ pattern }) },
    )
    return Schema.String.annotate({ examples, shown: true, hint: how, ...doc })
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

/** Guesses what was meant, as a message; empty if there is none. */
const didYouMean = (kind: string, meant: string | undefined): string =>
  meant === undefined ? "" : `this is no ${kind}: did you mean "${meant}"?`

/** A suggestion for texts such as `30s` and `10 mb`, or without a unit. */
const meant = (text: string, units: Readonly<Record<string, string>>, usual: string): string | undefined => {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$/.exec(text)
  const unit = match?.[2] === "" ? usual : units[(match?.[2] ?? "").toLowerCase()]
  return match === null || unit === undefined ? undefined : `${match[1]} ${unit}`
}

/** A suggestion for a URL, a host or a port alone, and an IPv6 address without brackets. */
const meantAddress = (text: string): string | undefined => {
  const [, inUrl] = /^[a-z]+:\/\/([^/?#@]+)\/?$/i.exec(text) ?? []
  const [, v6, port] = /^([0-9A-Fa-f]*:[0-9A-Fa-f:]*:[0-9A-Fa-f]*):(\d{1,5})$/.exec(text) ?? []
  if (inUrl !== undefined) return Address.parse(inUrl) === undefined ? undefined : inUrl
  if (v6 !== undefined) return `[${v6}]:${port}`
  if (/^:?\d{1,5}$/.test(text)) return `127.0.0.1:${text.replace(":", "")}`
  return /^[A-Za-z][A-Za-z0-9.-]*$|^\d+(\.\d+){3}$/.test(text) ? `${text}:8080` : undefined
}

const rateUnits: Readonly<Record<string, string>> = { s: "second", m: "minute", h: "hour", d: "day" }

/** A suggestion for texts such as `100/s` and `100 per second`. */
const meantRate = (text: string): string | undefined => {
  const [, events, unit = ""] = /^\s*([1-9]\d*)\s*(?:\/|per|a|an)\s*([a-z]+?)s?\s*$/i.exec(text) ?? []
  const known = rateUnits[unit[0]?.toLowerCase() ?? ""]
  return events === undefined || known === undefined ? undefined : `${events}/${known}`
}

const duration = word<Duration.Duration>({
  kind: "duration",
  how: 'write a number and a unit, such as "30 seconds", "10 minutes" or "7 days"',
  pattern: "^\\d+(\\.\\d+)? (millis?|seconds?|minutes?|hours?|days?|weeks?)$",
  examples: ["500 millis", "30 seconds", "10 minutes", "7 days"],
  parse: (text) => {
    const parsed = Duration.fromInput(text as Duration.Input)
    if (Option.isNone(parsed) || !Duration.isFinite(parsed.value))
      return new Problem(didYouMean("duration", meant(text, durationUnits, "seconds")))
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
    if (Option.isNone(parsed)) return new Problem(didYouMean("size", meant(text, sizeUnits, "MiB")))
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
    if (address === undefined) return new Problem(didYouMean("address", meantAddress(text)))
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
    if (match === null) return new Problem(didYouMean("rate", meantRate(text)))
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
    if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text)) {
      return new Problem(didYouMean("time", /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : undefined))
    }
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
