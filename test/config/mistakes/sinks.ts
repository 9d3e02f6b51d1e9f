/** Sinks: what all have, files, HTTP. */
import { config, file, http, sink, slack, type Theme } from "./Mistake.ts"

const two = (one: string, other: string): string =>
  config({
    sinks: `{\n    "audit": ${one},\n    "copy": ${other}\n  }`,
    routes: '[{ "name": "everything", "match": "**", "to": ["audit", "copy"] }]',
  })

const named = (name: string): string =>
  config({
    sinks: `{ §"${name}": { "type": "console" } }`,
    routes: `[{ "name": "all", "match": "**", "to": "${name}" }]`,
  })

export const sinks: Theme = {
  title: "Sinks",
  mistakes: [
    { name: "a sink with a reserved name", config: named("_quarantine") },
    { name: "a sink with a name that can't be part of an id", config: named("a:b") },
    { name: "a sink that isn't an object", config: config({ sinks: '{ "audit": §"./events.ndjson" }' }) },
    { name: "a sink without a type", config: config({ sinks: '{ §"audit": { "path": "./events.ndjson" } }' }) },
    { name: "a type that is mistyped", config: sink('"type": §"flie", "path": "./events.ndjson"') },
    { name: "a type in other letters", config: sink('"type": §"PagerDuty", "routingKey": "k"') },
    { name: "a type that there is not", config: sink('"type": §"s3", "bucket": "events"') },
    { name: "a type by another name", config: sink('"type": §"webhook", "url": "https://example.com"') },
    { name: "a mistyped key", config: file('§"concurency": 2') },
    { name: "a key of delivery beside the sink's own", config: file('§"retry": { "maxAttempts": 3 }') },
    { name: "a key of delivery.retry beside the sink's own", config: file('§"maxAttempts": 3') },
    { name: "a key of another type of sink", config: file('§"url": "https://example.com"') },
    {
      name: "two sinks that write to one file",
      config: two(
        '{ "type": "file", "path": "./data//events.ndjson" }',
        '{ "type": "file", "path": §"data/./events.ndjson" }',
      ),
    },
    { name: "a sink that writes into the journal", config: sink('"type": "file", "path": §"./data/journal.db"') },
    {
      name: "a sink that writes into the journal's lock",
      config: sink('"type": "file", "path": §"data/journal.db-lock"'),
    },
    {
      name: "a sink without a route",
      config: two('{ "type": "console" }', '{ "type": "console" }')
        .replace('"copy": {', '§"copy": {')
        .replace('"audit", "copy"', '"audit"'),
    },
    { name: "a sink renamed from a sink that is still there", config: file('"renamedFrom": §"audit"') },
    {
      name: "two sinks renamed from one",
      config: two('{ "type": "console", "renamedFrom": "old" }', '{ "type": "console", "renamedFrom": §"old" }'),
    },
    { name: "no requests at a time", config: file('"concurrency": §0') },
    { name: "a backlog without its size", config: file('§"backlog": { "whenFull": "deadLetter" }') },
    { name: "an order that there is not", config: file('"order": §"keys"') },
    { name: "a template with an unknown placeholder", config: file('"key": §"{{acount_id}}"') },
    { name: "a placeholder with a dot in place of a pointer", config: file('"key": §"{{data.object.id}}"') },
    { name: "a template that is not closed", config: file('"key": §"{{account_id"') },
    { name: "a placeholder in single braces", config: slack('"summary": §"{type} failed"') },
    { name: "a URL without its scheme", config: sink('"type": "http", "url": §"example.com/hooks"') },
    { name: "a URL of another scheme", config: sink('"type": "http", "url": §"ftp://example.com/hooks"') },
    {
      name: "a URL whose host is a placeholder",
      config: sink('"type": "http", "url": §"https://{{account_id}}.example.com"'),
    },
    { name: "a method that events aren't sent by", config: http('"method": §"GET"') },
    { name: "a body without its format", config: http('"body": §{ "text": "{{type}}" }') },
    { name: "a template without a body", config: http('"format": "template"').replace('"audit"', '§"audit"') },
    { name: "a mode without its format", config: http('"mode": §"structured"') },
    {
      name: "a bad placeholder deep in a body",
      config: http('"format": "template", "body": { "text": ["ok {{type}}", §"{{typ}}"] }'),
    },
    {
      name: "an expression with a word too many",
      config: http('"format": "template", "body": { "jmespath": "{id: id, \\"of\\": data.type §data.object}" }'),
    },
    {
      name: "an expression that ends too early",
      config: http('"format": "template", "body": { "jmespath": "data.object.[id, start_at§" }'),
    },
    {
      name: "a mistyped function of an expression",
      config: file('"key": { "jmespath": "§uper(data.object.id)" }'),
    },
    {
      name: "a number of an expression without its backticks",
      config: file('"key": { "jmespath": "data.object.id == §5" }'),
    },
    {
      name: "a variable that expressions do not have",
      config: file('"key": { "jmespath": "join(\'/\', [§$webhok, id])" }'),
    },
    {
      name: "an expression that fails for every event type",
      config: http('"format": "template", "body": { "jmespath": §"sum(data.object.lines[].price)" }'),
    },
    {
      name: "an expression from a file that is wrong",
      config: file('"key": { "jmespath": §"file:key.jmespath" }'),
      files: { "key.jmespath": "data.\n  object..id" },
    },
    { name: "an expression that isn't text", config: file('"key": { "jmespath": §5 }') },
    { name: "headers as a list", config: http('"headers": §["authorization: Bearer x"]') },
    { name: "a header's name with a blank", config: http('"headers": { §"x header": "y" }') },
    { name: "a header that the relay writes", config: http('"headers": { "content-length": §"3" }') },
    { name: "an answer that isn't a status", config: http('"classify": { "9xx": §"retry" }') },
    { name: "an answer that means what there is not", config: http('"classify": { "409": §"ok" }') },
    { name: "a client certificate without its key", config: http('§"tls": { "certificate": "cert.pem" }') },
    {
      name: "a check of certificates that is to be switched off",
      config: http('"tls": { §"rejectUnauthorized": false }'),
    },
    { name: "a digest where each event is sent by itself", config: file('§"digest": {}') },
    { name: "a digest of raw deliveries", config: http('§"digest": {}') },
    { name: "a digest by nothing", config: slack('"digest": { "by": §[] }') },
    {
      name: "a digest with an order and with an unknown field, that never fills",
      config: slack(
        '§"order": "key", "digest": { "by": ["typ", "count"], "maxEvents": 20 }, "delivery": { "maxRetrying": 10 }',
      ),
    },
    {
      name: "a digest whose oldest events would be given up by themselves",
      config: slack('"digest": {}, "backlog": §{ "max": 10, "whenFull": "deadLetter" }'),
    },
    {
      name: "a recovery that would not find its alert",
      config: slack('§"resolve": true, "digest": { "by": ["type", "account_id"] }'),
    },
    { name: "a recovery in an order of another kind", config: slack('"resolve": true, §"key": "{{account_id}}"') },
    {
      name: "a wait that begins longer than it may be",
      config: file('"delivery": { "retry": §{ "initial": "1 hour" } }'),
    },
    {
      name: "attempts without end, in words",
      config: file('"delivery": { "retry": { "maxAttempts": §"unlimited" } }'),
    },
    { name: "a number of retries in place of their keys", config: file('"delivery": { "retry": §5 }') },
  ],
}
