/** Texts and numbers that have another meaning at their destination. */

import type { Request } from "../Stage.ts"
import { type Content, content, delivered } from "./Content.ts"

const text = (request: Request | undefined): string => Buffer.from(request?.body ?? []).toString("utf8")

const header =
  (expected: string): Content["looks"] =>
  ([request]) => {
    const got = request?.headers.get("x-note")
    return got === expected ? undefined : `the header is ${JSON.stringify(got?.slice(0, 80))}`
  }

/** The event chooses one segment and one value, never more of the URL. */
const oneSegment: Content["looks"] = ([request]) =>
  /^\/[^/?#]*\/end\?q=[^&#]*$/.test(request?.target ?? "")
    ? undefined
    : `it was sent to ${request?.target.slice(0, 80)}`

const note =
  (expected: string): Content["looks"] =>
  ([request]) => {
    const body = text(request)
    return body.includes(`"note":${expected},`) ? undefined : `it was sent as ${body.slice(0, 120)}`
  }

const at = (path: string, q = "q"): string => JSON.stringify({ path, q })

export const cases: ReadonlyArray<Content> = [
  // Headers.
  content(
    "a line break and a header of its own",
    "headers",
    `{"note":"a\\r\\nx-evil: 1\\r\\n\\r\\nGET /"}`,
    delivered,
    {
      looks: ([request]) => (request?.headers.has("x-evil") ? "it made a header of its own" : undefined),
    },
  ),
  content("NUL and other controls in a header", "headers", '{"note":"a\\u0000b\\u0007c\\u007f"}', delivered, {
    looks: header("a%00b%07c%7F"),
  }),
  content("half a character in a header", "headers", '{"note":"\\ud800"}', delivered, { looks: header("%EF%BF%BD") }),
  content("only blanks in a header", "headers", '{"note":"    "}', delivered),
  content("text turned around in a header", "headers", '{"note":"\\u202egnp.exe"}', delivered),
  // URLs.
  content("dots in a path", "path", at(".."), delivered, { looks: oneSegment }),
  content("encoded dots and slashes in a path", "path", at("%2e%2e%2f%2e%2e"), delivered, { looks: oneSegment }),
  content("a way out of the path", "path", at("../../steady"), delivered, { looks: oneSegment }),
  content("backslashes in a path", "path", at("..\\..\\steady"), delivered, { looks: oneSegment }),
  content("a query and a fragment in a path", "path", at("a?q=evil#b"), delivered, { looks: oneSegment }),
  content("a second parameter in a query", "path", at("a", "1&admin=1#x"), delivered, { looks: oneSegment }),
  content("another host in a path", "path", at("@evil.example/"), delivered, { looks: oneSegment }),
  content("an empty segment", "path", at(""), delivered),
  content("line breaks and tabs in a path", "path", at("a\r\n\tb"), delivered, { looks: oneSegment }),
  content("half a character in a path", "path", '{"path":"\\udc00","q":"\\ud800"}', delivered, { looks: oneSegment }),
  // Bodies.
  content("a placeholder in a value", "body", '{"note":"{{id}}{{/data/object/key}}"}', delivered, {
    looks: note('"{{id}}{{/data/object/key}}"'),
  }),
  content("quotes and brackets in a value", "body", '{"note":"\\"},\\"admin\\":true,\\"x\\":{\\""}', delivered, {
    looks: ([request]) =>
      Object.hasOwn(JSON.parse(text(request)), "admin") ? "it made a field of its own" : undefined,
  }),
  content("a number that no double holds", "body", '{"note":9007199254740993}', delivered, {
    looks: note("9007199254740993"),
  }),
  content("a number beyond all doubles", "body", '{"note":1e400}', delivered, { looks: note("1e400") }),
  content("minus nought", "body", '{"note":-0}', delivered, { looks: note("0") }),
  content("half a character in a body", "body", '{"note":"\\ud800"}', delivered),
  content("a line separator and a NUL in a body", "body", '{"note":"\\u2028\\u0000"}', delivered),
  // Alerts.
  content("a mention of everybody", "slack", '{"note":"<!channel> <@U1> &lt;!here&gt;"}', delivered, {
    looks: ([request]) => (/<!channel>|<@U1>/.test(text(request)) ? "it mentions people" : undefined),
  }),
  content("a mention of everybody", "discord", '{"note":"@everyone <@&1>"}', delivered, {
    looks: ([request]) => {
      const body = text(request)
      return body === "" || /"allowed_mentions":\{"parse":\[\]\}/.test(body) ? undefined : "it may mention people"
    },
  }),
  content("markup in a card", "teams", '{"note":"[click](javascript:alert(1)) **b**"}', delivered),
  content("text turned around in an alert", "pager", '{"note":"\\u202e\\u2066gnp.exe"}', delivered),
  // CloudEvents.
  content("a time that is none", "cloud", "{}", delivered, {
    envelope: '"version":"1","created_at":"2026-13-99T99:99:99Z"',
    looks: ([request]) =>
      Number.isNaN(Date.parse(request?.headers.get("ce-time") ?? "")) ? "ce-time is no time" : undefined,
  }),
  content("a version of 200 digits", "cloud", "{}", delivered, {
    envelope: `"version":"${"9".repeat(200)}","created_at":""`,
  }),
  content("a duplicate of the data that CloudEvents adds", "structured", "{}", delivered, {
    envelope: '"version":"1","created_at":"","specversion":"9","data_base64":"AAAA"',
    looks: ([request]) =>
      JSON.parse(text(request)).specversion === "1.0" ? undefined : "the sender changed an attribute",
  }),
]
