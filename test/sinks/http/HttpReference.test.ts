/** The reference's statements about an HTTP sink, compared with the sink. The tables are parsed, not copied here. */
import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { Redacted, Schema } from "effect"
import type { Entry } from "../../../src/event/Event.ts"
import { type Receiver, reasonOf, type Verdict, verdicts } from "../../../src/sinks/http/HttpAnswer.ts"
import { HttpConfig } from "../../../src/sinks/http/HttpConfig.ts"
import { bearing, requestsOf } from "../../../src/sinks/http/HttpRequest.ts"
import { entry } from "../samples.ts"

const reference = readFileSync(new URL("../../../src/sinks/http/http.md", import.meta.url), "utf8")

/** The rows of the table with this heading. */
const rowsOf = (heading: string): ReadonlyArray<ReadonlyArray<string>> => {
  const lines = reference.split("\n")
  const start = lines.indexOf(heading)
  if (start < 0) throw new Error(`the reference has no table ${heading}`)
  const rows = lines.slice(start + 2)
  return rows
    .slice(
      0,
      rows.findIndex((line) => !line.startsWith("|")),
    )
    .map((row) => row.split("|").slice(1, -1))
}

const receiver: Receiver = {
  origin: "https://receiver.example.com",
  name: "POST https://example.com",
  overrides: {},
  isTemplated: false,
}

const outcome = (status: number, retryAfter: boolean, more: Partial<Receiver> = {}): string => {
  const headers = new Headers(retryAfter ? { "retry-after": "7" } : {})
  return reasonOf({ status, headers }, () => "", { ...receiver, ...more }, { now: 0 })?._tag ?? "delivered"
}

const tags: Readonly<Record<Verdict, string>> = {
  delivered: "delivered",
  retry: "DeliveryFailed",
  throttle: "SinkThrottled",
  misconfigured: "SinkMisconfigured",
  reject: "DeliveryRejected",
}
const isVerdict = (word: string): word is Verdict => verdicts.some((verdict) => verdict === word)

/** The verdicts in the table, by status or class; `503+` is a 503 with `Retry-After`. */
const documented = new Map(
  rowsOf("| answer | effect | in `classify` |").flatMap(([answers = "", , word = ""]) =>
    [...answers.matchAll(/\b(\d(?:\d\d|xx))( with `Retry-After`)?/g)].map(([, status = "", wait]) => {
      const verdict = word.replaceAll(/[ `]/g, "")
      if (!isVerdict(verdict)) throw new Error(`${word} is no verdict`)
      return [wait === undefined ? status : `${status}+`, verdict] as const
    }),
  ),
)

const told = (status: number, retryAfter: boolean): string => {
  const named = retryAfter ? documented.get(`${status}+`) : undefined
  const verdict = named ?? documented.get(String(status)) ?? documented.get(`${Math.floor(status / 100)}xx`)
  return verdict === undefined ? "nothing" : tags[verdict]
}

describe("the reference's table of answers", () => {
  const statuses = Array.from({ length: 500 }, (_, index) => 100 + index)

  test("shows the relay's reaction to each status", () => {
    const differ = statuses.flatMap((status) =>
      [false, true].flatMap((wait) =>
        told(status, wait) === outcome(status, wait)
          ? []
          : [`${status}: ${told(status, wait)}, ${outcome(status, wait)}`],
      ),
    )
    expect(differ).toEqual([])
  })

  test("has every word of `classify`, and each has the effect in its row", () => {
    expect([...new Set(documented.values())].sort()).toEqual([...verdicts].sort())
    for (const verdict of verdicts) expect(outcome(418, false, { overrides: { "418": verdict } })).toBe(tags[verdict])
    expect(outcome(418, false, { overrides: { "4xx": "retry", "418": "delivered" } })).toBe("delivered")
  })

  test("names the statuses that concern the event if the event chose the path", () => {
    const [, listed = ""] = /placeholder, ([\d, and]+) concern the event/.exec(reference) ?? []
    const named = [...listed.matchAll(/\d{3}/g)].map(([status]) => Number(status))
    const found = statuses.filter((status) => outcome(status, false, { isTemplated: true }) !== outcome(status, false))
    expect(named).toEqual(found)
    for (const status of found) expect(outcome(status, false, { isTemplated: true })).toBe("DeliveryFailed")
  })
})

describe("the reference's table of headers", () => {
  const headersOf = (config: Partial<typeof HttpConfig.Encoded>, one: Entry): ReadonlyArray<string> => {
    const decoded = Schema.decodeUnknownSync(HttpConfig)({ url: "https://example.com", ...config })
    return Object.keys(requestsOf(decoded, undefined, ({ encode }) => encode([one], 0)).trigger.headers)
  }

  test("names exactly the headers that are sent", () => {
    const rows = rowsOf("| header | value | sent |")
    const named = rows.flatMap(([names = ""]) => [...names.matchAll(/`([^`]+)`/g)].map(([, name]) => name))
    const trace = { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`, tracestate: "vendor=1" }
    const sent = [
      headersOf({}, entry(1, { trace })),
      headersOf({ format: "cloudevents" }, entry(1)),
      headersOf({ format: "cloudevents", mode: "structured" }, entry(1)),
      headersOf({ format: "template", body: {} }, entry(1)),
      ...(["sender", "github", "stripe", "standardWebhooks"] as const).map((scheme) =>
        headersOf({ sign: { scheme, secret: Buffer.alloc(24).toString("base64") } }, entry(1)),
      ),
    ]
    const bearer = bearing({ url: "", init: {}, bytes: new Uint8Array() }, Redacted.make("token"))
    sent.push(Object.keys(bearer.init.headers ?? {}))
    expect(named.toSorted()).toEqual([...new Set(sent.flat())].toSorted())
  })
})
