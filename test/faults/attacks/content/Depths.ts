/** Values too deep, too long or of another kind than expected, at every place that looks into an event. */
import { arrays, type Content, content, dead, deep, delivered, long, objects, settled } from "./Content.ts"

/** Only this event fails. The message says that the event could not be rendered. */
const unrendered = dead(/./)

export const cases: ReadonlyArray<Content> = [
  // If nothing reads the value, depth is only bytes.
  content("objects 150,000 deep where nothing looks", "cloud", `{"deep":${objects(deep)}}`, delivered),
  content("arrays 150,000 deep in a structured CloudEvent", "structured", `{"deep":${arrays(deep)}}`, delivered),
  content("objects 150,000 deep into a file", "archive", `{"deep":${objects(deep)}}`, delivered),
  content("objects 150,000 deep at a route's where", "chosen", `{"flag":${objects(deep)}}`, delivered, {
    account: "acct_nobody",
    looks: (requests) => (requests.length > 0 ? "a route took what its where does not hold" : undefined),
  }),
  // If something reads it, only the event fails.
  content("objects 150,000 deep as an order key", "keyed", `{"key":${objects(deep)}}`, unrendered),
  content("arrays 150,000 deep as an order key", "keyed", `{"key":${arrays(deep)}}`, unrendered),
  content("objects 150,000 deep as a digest's group", "digest", `{"group":${objects(deep)}}`, unrendered),
  content("arrays 150,000 deep in a header", "headers", `{"note":${arrays(deep)}}`, unrendered),
  content("objects 150,000 deep in a URL", "path", `{"path":${objects(deep)},"q":"q"}`, unrendered),
  content("objects 150,000 deep in a body", "body", `{"note":${objects(deep)}}`, unrendered),
  content("objects 150,000 deep in an alert's details", "pager", `{"note":${objects(deep)}}`, unrendered),
  content("objects 150,000 deep in an alert's summary", "slack", `{"note":${objects(deep)}}`, unrendered),
  content(
    "an object 150,000 deep where an alert's object id is looked for",
    "teams",
    `{"id":${objects(deep)},"note":"n"}`,
    settled,
  ),
  // Length.
  content("a megabyte as an order key", "keyed", `{"key":"${long(1_000_000)}"}`, delivered),
  content("a megabyte as a digest's group", "digest", `{"group":"${long(1_000_000)}"}`, delivered),
  content(
    "a megabyte in a header, which the receiver refuses",
    "headers",
    `{"note":"${long(1_000_000)}"}`,
    dead(/431|400|closed|request/),
  ),
  content(
    "a megabyte in a URL, which the receiver refuses",
    "path",
    `{"path":"${long(1_000_000)}","q":""}`,
    dead(/414|431|400|closed|request/),
  ),
  content("a megabyte in a body", "body", `{"note":"${long(1_000_000)}"}`, delivered),
  content("a megabyte in an alert, which is cut", "slack", `{"note":"${long(1_000_000)}"}`, delivered, {
    looks: ([request]) => ((request?.body.length ?? 0) > 8_000 ? "the alert was not cut" : undefined),
  }),
  content(
    "half a megabyte of quotes, doubled by each escaping",
    "discord",
    `{"note":"${long(250_000, '\\"')}"}`,
    delivered,
  ),
  content("a megabyte of object id", "pager", `{"id":"${long(1_000_000)}","note":"n"}`, delivered),
  content(
    "100,000 fields",
    "body",
    `{"note":"n",${Array.from({ length: 100_000 }, (_, n) => `"f${n}":${n}`).join()}}`,
    delivered,
  ),
  // Kinds.
  content("null as an order key", "keyed", `{"key":null}`, delivered),
  content("a boolean as an order key", "keyed", `{"key":false}`, delivered),
  content("an empty text as a digest's group", "digest", `{"group":""}`, delivered),
  content("nothing at all where a template looks", "headers", "{}", delivered),
  content("an array where an object is expected", "body", `{"note":[[1],{"a":[]}]}`, delivered),
  content("__proto__ as a field that templates read", "body", `{"__proto__":{"note":"inherited"}}`, delivered, {
    looks: ([request]) =>
      request !== undefined && JSON.parse(Buffer.from(request.body).toString("utf8")).note !== null
        ? "a prototype was read"
        : undefined,
  }),
  content("no field where a template reads __proto__", "body", `{"note":"n"}`, delivered, {
    looks: ([request]) =>
      request !== undefined && !Buffer.from(request.body).includes('"own":null') ? "a prototype was read" : undefined,
  }),
  content("constructor as a field of a where", "chosen", `{"constructor":1,"flag":"no"}`, delivered, {
    account: "acct_nobody",
  }),
]
