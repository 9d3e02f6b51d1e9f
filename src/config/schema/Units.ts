/**
 * Durations, sizes, addresses and rates as people write them.
 *
 * A text has exactly one meaning, or is an error that shows the right syntax. Its schema
 * has the description, pattern, examples and default, so an editor gets them from the
 * generated JSON Schema.
 */
import { ByteSize, DateTime, Duration, Effect, Option, Result, Schema, SchemaGetter } from "effect"
import { type Bytes, type EpochMillis, type Hours, hoursText } from "../../event/Quantities.ts"
import * as Address from "../Address.ts"

// Says why the URL of an HTTP service is wrong. No message repeats the URL, which may be a secret.

/** Says why a text isn't an `http://` or `https://` URL. Returns `undefined` if it is. */
export const httpUrlProblem = (url: string): string | undefined => {
  const example = "write it in full, such as https://example.com/hooks"
  if (/^\s|\s$/.test(url)) return "this is not a URL: there is a blank before or after it"
  if (/^["'“‘]/.test(url)) return "this is not a URL: it begins with a quotation mark"
  const [, scheme] = /^([a-z][a-z0-9+.-]*):\/\//i.exec(url) ?? []
  if (scheme === undefined) {
    if (/^https?:/i.test(url)) return `this is not a URL: \`http:\` or \`https:\` is followed by \`//\`; ${example}`
    return `this is not a URL: it has no \`https://\` in front; ${example}`
  }
  if (!/^https?$/i.test(scheme)) return `this is not a URL of HTTP: it begins with another scheme; ${example}`
  const [, authority = ""] = /^https?:\/\/([^/?#\\]*)/i.exec(url) ?? []
  if (authority === "") return `this is not a URL: no host follows \`://\`; ${example}`
  if (/\s/.test(url)) return "this is not a URL: it contains a blank; write it as %20"
  if (URL.canParse(url)) return undefined
  const [, port] = /:([^:\]]*)$/.exec(authority) ?? []
  if (port !== undefined && !(/^\d*$/.test(port) && Number(port) <= 65_535)) {
    return "this is not a URL: what follows the `:` behind its host is no port; a port is a number up to 65535"
  }
  return `this is not a URL: its host is none; ${example}`
}

/** Facts about a key for the reference and the JSON Schema. */
interface Doc {
  readonly description: string
  readonly default?: string
  readonly examples?: ReadonlyArray<string>
}

/** One kind of value, with its parser and the error for other texts. */
interface Word<A> {
  readonly kind: string
  /** The expected syntax, shown in error messages. */
  readonly how: string
  readonly pattern: string
  readonly examples: ReadonlyArray<string>
  /** Returns the value or a message. An empty message means the usual one. */
  readonly parse: (text: string) => Result.Result<A, string>
  readonly format: (value: A) => string
}

const quantities: ReadonlySet<string> = new Set(["duration", "size", "rate"])

const word =
  <A>({ kind, how, pattern, examples, parse, format }: Word<A>) =>
  (doc: Doc) => {
    const reads = Schema.makeFilter(
      (text: string) => {
        const parsed = parse(text)
        if (Result.isSuccess(parsed)) return undefined
        if (quantities.has(kind) && /^\s*-\s*[\d.]/.test(text)) return `a ${kind} can't be negative`
        return parsed.failure || `this is not ${withArticle(kind)}: ${how}`
      },
      { expected: withArticle(kind), toJsonSchema: () => ({ pattern }) },
    )
    return Schema.String.annotate({ examples, shown: true, hint: how, ...doc })
      .check(reads)
      .pipe(
        Schema.decodeTo(
          Schema.declare((_): _ is A => true),
          {
            // The check above has succeeded.
            decode: SchemaGetter.transform((text: string): A => Result.getOrThrow(parse(text))),
            encode: SchemaGetter.transform((value: A) => format(value)),
          },
        ),
      )
  }

/** Returns the units by their common spellings. */
const spellings = (units: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(units).flatMap(([unit, all]) => all.split(" ").map((one) => [one, unit])))

const durationUnits = spellings({
  millis: "ms msec milliseconds",
  seconds: "s sec secs second seconds",
  minutes: "m min mins minutes",
  hours: "h hr hrs hours",
  days: "d days",
  weeks: "w weeks",
})

const sizeUnits = spellings({ B: "b", KiB: "k kb kib", MiB: "m mb mib", GiB: "g gb gib", TiB: "t tb tib" })

const withArticle = (kind: string): string => `${kind === "address" ? "an" : "a"} ${kind}`

/** Returns a message with the probable value; empty if there is no guess. */
const didYouMean = (kind: string, meant: string | undefined): string =>
  meant === undefined ? "" : `this is not ${withArticle(kind)}: did you mean "${meant}"?`

/** Returns a suggestion for texts such as `30s` and `10 mb`, or without a unit. */
const meant = (text: string, units: Readonly<Record<string, string>>, usual: string): string | undefined => {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$/.exec(text)
  const unit = match?.[2] === "" ? usual : units[(match?.[2] ?? "").toLowerCase()]
  return match === null || unit === undefined ? undefined : `${match[1]} ${unit}`
}

/** Returns a suggestion for a URL, a host or a port alone, or an IPv6 address without brackets. */
const meantAddress = (text: string): string | undefined => {
  const [, inUrl] = /^[a-z]+:\/\/([^/?#@]+)\/?$/i.exec(text) ?? []
  const [, v6, port] = /^([0-9A-Fa-f]*:[0-9A-Fa-f:]*:[0-9A-Fa-f]*):(\d{1,5})$/.exec(text) ?? []
  if (inUrl !== undefined) return Address.parse(inUrl) === undefined ? undefined : inUrl
  if (v6 !== undefined) return `[${v6}]:${port}`
  if (/^:?\d{1,5}$/.test(text)) return `127.0.0.1:${text.replace(":", "")}`
  return /^[A-Za-z][A-Za-z0-9.-]*$|^\d+(\.\d+){3}$/.test(text) ? `${text}:8080` : undefined
}

const rateUnits: Readonly<Record<string, string>> = { s: "second", m: "minute", h: "hour", d: "day" }

/** Returns a suggestion for texts such as `100/s` and `100 per second`. */
const meantRate = (text: string): string | undefined => {
  const [, events, unit = ""] = /^\s*([1-9]\d*)\s*(?:\/|per|a|an)\s*([a-z]+?)s?\s*$/i.exec(text) ?? []
  const known = rateUnits[unit[0]?.toLowerCase() ?? ""]
  return events === undefined || known === undefined ? undefined : `${events}/${known}`
}

/** `limits` describes the allowed durations. */
const durationWithin = (least: Duration.Input, most: Duration.Input, limits: string) =>
  word<Duration.Duration>({
    kind: "duration",
    how: 'write a number and a unit, such as "30 seconds", "10 minutes" or "7 days"',
    pattern: "^\\d+(\\.\\d+)? (millis?|seconds?|minutes?|hours?|days?|weeks?)$",
    examples: ["500 millis", "30 seconds", "10 minutes", "7 days"],
    parse: (text) => {
      const parsed = Duration.fromInput(text as Duration.Input)
      if (Option.isNone(parsed) || !Duration.isFinite(parsed.value)) {
        return Result.fail(didYouMean("duration", meant(text, durationUnits, "seconds")))
      }
      const isWithin = Duration.between(parsed.value, {
        minimum: Duration.fromInputUnsafe(least),
        maximum: Duration.fromInputUnsafe(most),
      })
      // Journals store whole milliseconds.
      return isWithin
        ? Result.succeed(Duration.millis(Math.ceil(Duration.toMillis(parsed.value))))
        : Result.fail(limits)
    },
    format: (value) => `${Duration.toMillis(value)} millis`,
  })

/** The sum of a time and a duration must be a time that each journal can store. */
const duration = durationWithin("1 millis", "36500 days", "a duration is from 1 millisecond to 36500 days")
const wait = durationWithin("0 seconds", "1 hour", "this is from 0 seconds to 1 hour")
/** Bun's maximum is 255 seconds. It also closes connections whose request waits for its answer. */
const idle = durationWithin("15 seconds", "255 seconds", "this is from 15 to 255 seconds")

/** `limits` describes the allowed sizes. */
const bytesWithin = (least: Bytes, most: Bytes, limits: string) =>
  word<Bytes>({
    kind: "size",
    how: 'write a number and a unit, such as "512 KiB", "1 MiB" or "10 GB"',
    pattern: "^\\d+(\\.\\d+)? ?(B|bytes?|kB|MB|GB|TB|KiB|MiB|GiB|TiB)$",
    examples: ["512 KiB", "1 MiB", "10 GiB"],
    parse: (text) => {
      const parsed = Option.flatMap(ByteSize.fromString(text), ByteSize.toNumber)
      if (Option.isNone(parsed)) return Result.fail(didYouMean("size", meant(text, sizeUnits, "MiB")))
      return parsed.value >= least && parsed.value <= most ? Result.succeed(parsed.value) : Result.fail(limits)
    },
    format: (value) => `${value} B`,
  })

const bytes = bytesWithin(1, Number.MAX_SAFE_INTEGER, "a size is at least one byte")
/** Bun accepts any size, but each connection may use this much memory. */
const headerBytes = bytesWithin(4 * 1024, 1024 * 1024, "this is from 4 KiB to 1 MiB")

const address = word<Address.Address>({
  kind: "address",
  how: 'write host and port, such as "127.0.0.1:8080", "[::1]:8080", or "*:8080" for all addresses',
  pattern: Address.pattern,
  examples: ["127.0.0.1:8080", "[::1]:8080", "*:8080"],
  parse: (text) => {
    const address = Address.parse(text)
    if (address === undefined) return Result.fail(didYouMean("address", meantAddress(text)))
    return address.port <= 65_535 ? Result.succeed(address) : Result.fail("a port is at most 65535")
  },
  format: Address.format,
})

const listenAddress = word<Address.Address>({
  kind: "address",
  how: 'write host and port, such as "127.0.0.1:8080" or "*:8080" for all addresses, or a path, such as "unix:/run/relay.sock"',
  pattern: Address.listenPattern,
  examples: ["127.0.0.1:8080", "[::1]:8080", "*:8080", "unix:/run/relay.sock"],
  parse: (text) => {
    const address = Address.parseListen(text)
    if (address === undefined) return Result.fail(didYouMean("address", meantAddress(text)))
    if (address.unix !== undefined && !Address.isPath(address.unix)) {
      return Result.fail("the path of a socket has at most 96 bytes, and no slash at its end")
    }
    return address.port <= 65_535 ? Result.succeed(address) : Result.fail("a port is at most 65535")
  },
  format: Address.format,
})

/** Permissions of a file. */
const mode = word<number>({
  kind: "mode",
  how: 'write four octal digits, such as "0660"',
  pattern: "^0[0-7]{3}$",
  examples: ["0660", "0666"],
  parse: (text) => (/^0[0-7]{3}$/.test(text) ? Result.succeed(Number.parseInt(text, 8)) : Result.fail("")),
  format: (value) => `0${value.toString(8).padStart(3, "0")}`,
})

/** At most `events` within `per`. */
interface Rate {
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
    if (match === null) return Result.fail(didYouMean("rate", meantRate(text)))
    return Result.succeed({ events: Number(match[1]), per: Duration.fromInputUnsafe(`1 ${match[2] as "second"}`) })
  },
  format: ({ events, per }) => `${events} per ${Duration.toMillis(per)} millis`,
})

/** An ISO 8601 time. */
const time = word<EpochMillis>({
  kind: "time",
  how: 'write it in full and in UTC, such as "2026-12-01T00:00:00Z"',
  pattern: "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}(:\\d{2}(\\.\\d+)?)?(Z|[+-]\\d{2}:\\d{2})$",
  examples: ["2026-12-01T00:00:00Z"],
  parse: (text) => {
    if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text)) {
      return Result.fail(didYouMean("time", /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : undefined))
    }
    const at = Date.parse(text)
    return Number.isNaN(at) ? Result.fail("there is no such day or time") : Result.succeed(at)
  },
  format: (at) => new Date(at).toISOString(),
})

const hours = word<Hours>({
  kind: "range of hours",
  how: 'write begin and end, such as "08:00-18:00"; "22:00-06:00" ends on the next day',
  pattern: "^([01]\\d|2[0-3]):[0-5]\\d-(([01]\\d|2[0-3]):[0-5]\\d|24:00)$",
  examples: ["08:00-18:00"],
  parse: (text) => {
    const [, ...parts] = /^(\d\d):([0-5]\d)-(\d\d):([0-5]\d)$/.exec(text)?.map(Number) ?? []
    const [fromHour = 24, fromMinute = 0, toHour = 24, toMinute = 0] = parts
    const [from, to] = [fromHour * 60 + fromMinute, toHour * 60 + toMinute]
    if (from >= 24 * 60 || to > 24 * 60) return Result.fail("")
    return from === to ? Result.fail("these hours end when they begin") : Result.succeed({ from, to })
  },
  format: hoursText,
})

const timeZone = word<string>({
  kind: "time zone",
  how: 'write its name in the IANA database, such as "Europe/Berlin" or "UTC"',
  pattern: "^[A-Za-z]",
  examples: ["Europe/Berlin"],
  parse: (text) => {
    const isNamed = /^[A-Za-z]/.test(text) && Option.isSome(DateTime.zoneMakeNamed(text))
    return isNamed ? Result.succeed(text) : Result.fail("")
  },
  format: (value) => value,
})

const withOr = <S extends Schema.Codec<unknown, string>>(make: (doc: Doc) => S) => ({
  required: make,
  or: (value: string, description: string) =>
    make({ description, default: value }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(value))),
})

/** The kinds of values, each as `required` and as `or` with a default. Sizes decode to bytes, times to epoch milliseconds. */
export const Units = {
  duration: withOr(duration),
  wait: withOr(wait),
  idle: withOr(idle),
  bytes: withOr(bytes),
  headerBytes: withOr(headerBytes),
  address: withOr(address),
  listenAddress: withOr(listenAddress),
  mode: withOr(mode),
  rate,
  time,
  hours,
  timeZone,
}

/** Returns the address of a text, or `undefined` if it isn't an address. */
export const parseAddress = (text: unknown): Address.Address | undefined =>
  Option.getOrUndefined(Schema.decodeUnknownOption(Units.listenAddress.required({ description: "" }))(text))
