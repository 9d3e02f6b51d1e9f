/** Ids, accounts, types and bodies that pass for something else. */
import { type Content, content, delivered, event, of, quarantined, refused } from "./Content.ts"

const made = (to: Parameters<typeof event>[0], object = "{}", changes = {}) => event(to, object, changes).body

/** Bodies with the same id: each is another event. */
const bodiesOf = (id: string, count: number): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, number) => made("cloud", `{"n":${number}}`, { id }))

const keysDiffer: Content["looks"] = (requests) => {
  const keys = new Set(requests.map(({ headers }) => headers.get("ce-id")))
  return keys.size === requests.length ? undefined : `${requests.length} events have ${keys.size} ids of their own`
}

const same = made("cloud", '{"n":"twice"}', { id: "evtBadtwice" })

export const cases: ReadonlyArray<Content> = [
  // Ids.
  ...["__proto__", "constructor", "toString", "hasOwnProperty"].map((id) =>
    content(`the id ${id}`, "cloud", "{}", delivered, { id }),
  ),
  content("an empty id", "headers", '{"note":"empty id"}', delivered, { id: "" }),
  content("an id of a line break", "headers", '{"note":"n"}', delivered, { id: "\r\n" }),
  content("an id of half a character", "cloud", '{"n":"high"}', delivered, { id: "\ud800" }),
  content("an id of the other half", "cloud", '{"n":"low"}', delivered, { id: "\udfff" }),
  content("an id like a replay's key", "cloud", "{}", delivered, { id: "evtBad:replay:7" }),
  content("an id like that of an event without one", "cloud", "{}", delivered, { id: "seq_1" }),
  content("an id with per cent", "cloud", "{}", delivered, { id: "evt_%0d%0a%25" }),
  content("an id of NUL", "archive", "{}", delivered, { id: "\u0000" }),
  content("an id that turns text around", "archive", "{}", delivered, { id: "evt_\u202egnp" }),
  content("an id of 200 characters", "body", '{"note":"n"}', delivered, { id: `evt_${"i".repeat(196)}` }),
  content("an id like a lane's dead letter", "archive", "{}", delivered, { id: "archive:1" }),
  of("five bodies under one id", "cloud", bodiesOf("evtBadfive", 5), delivered, {
    id: "evtBadfive",
    looks: keysDiffer,
  }),
  of("one body twice", "cloud", [same, same], delivered, {
    id: "evtBadtwice",
    looks: (requests) => (requests.length > 1 ? "a duplicate was sent twice" : undefined),
  }),
  // Accounts.
  ...["_quarantine", "__proto__", "", "../..", "acct_\u0000"].map((account) =>
    of(`the account ${JSON.stringify(account)}`, "steady", [made("steady", "{}", { account })], delivered),
  ),
  // Types.
  ...[
    "__proto__",
    "constructor",
    "*",
    "**",
    "{a,b}",
    "a..b",
    ".",
    "appointment.",
    "a".repeat(100),
    "\u202epyt",
    "a\nb",
  ].map((type) =>
    of(`the type ${JSON.stringify(type).slice(0, 20)}`, "cloud", [made("cloud", "{}", { type })], delivered),
  ),
  of("a type of 100 segments", "cloud", [made("cloud", "{}", { type: Array(100).fill("a").join(".") })], delivered),
  of(
    "a type of the relay's own",
    "steady",
    [made("steady", "{}", { type: "relay.dead_letter" })],
    quarantined(/relay/),
  ),
  of(
    "a type of the relay's own, to a webhook that takes no unknown ones",
    "steady",
    [made("steady", "{}", { type: "relay.x" })],
    refused(422),
    { webhook: "picky" },
  ),
  of(
    "an unknown type to a webhook that takes the catalogue",
    "steady",
    [made("steady", "{}", { type: "not.known" })],
    quarantined(/catalogue/),
    { webhook: "catalogue" },
  ),
  of(
    "a number as type",
    "steady",
    ['{"id":"evtBadtype","account_id":"a","version":"1","created_at":"","data":{"type":7,"object":{}}}'],
    quarantined(/type/),
  ),
  // Bodies.
  of(
    "a body with a field twice, the last one honest",
    "cloud",
    [`{"id":"evtBadfirst",${made("cloud", "{}", { id: "evtBadlast" }).slice(1)}`],
    delivered,
    {
      looks: ([request]) =>
        request?.headers.get("ce-id") === "evtBadlast" ? undefined : "the relay took the first id",
    },
  ),
  of("blanks around the envelope", "archive", [`\n\t  ${made("archive")}  \r\n`], delivered),
  of("an envelope over many lines", "archive", [JSON.stringify(JSON.parse(made("archive")), null, 2)], delivered),
  of(
    "an envelope that looks like a marked line",
    "archive",
    [`{"relay_base64":"AAAA",${made("archive").slice(1)}`],
    delivered,
  ),
  of("a byte order mark", "steady", [`\ufeff${made("steady")}`], quarantined(/JSON/)),
  of(
    "bad UTF-8",
    "steady",
    [Buffer.concat([Buffer.from('{"id":"'), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')])],
    quarantined(/UTF-8/),
  ),
  of("UTF-16", "steady", [Buffer.from(made("steady"), "utf16le")], quarantined(/JSON|UTF-8/)),
  of("nothing", "steady", [""], quarantined(/JSON/)),
  of("null", "steady", ["null"], quarantined(/object/)),
  of("an array of an envelope", "steady", [`[${made("steady")}]`], quarantined(/object|missing/)),
  of("two envelopes", "steady", [made("steady") + made("steady")], quarantined(/JSON/)),
  of("an unclosed array 1,000,000 deep", "steady", ["[".repeat(1_000_000)], quarantined(/JSON/)),
  of("a body that is no envelope, to a webhook that refuses them", "steady", ["{}"], refused(422), {
    webhook: "picky",
  }),
  of("more than the webhook takes", "steady", ["x".repeat(5 * 1024 * 1024)], refused(413)),
  content("names where null must be", "archive", '{"first_name":"Ann","email":"a@example.com","phone":7}', delivered, {
    type: "client.updated",
  }),
  // Only the body is signed.
  of("a webhook id that is a header of its own", "cloud", [made("cloud", '{"n":"webhook id"}')], delivered, {
    headers: { "x-service-webhook-id": "wh_%0d%0aevil" },
  }),
  of("a trace that is none", "cloud", [made("cloud", '{"n":"trace"}')], delivered, {
    headers: { traceparent: "00-00-00-ff", tracestate: "=".repeat(4_000) },
  }),
]
