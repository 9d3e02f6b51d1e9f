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
  mistakes: {
    "a sink with a reserved name": named("_quarantine"),
    "a sink with a name that can't be part of an id": named("a:b"),
    "a sink that isn't an object": config({ sinks: '{ "audit": §"./events.ndjson" }' }),
    "a sink without a type": config({ sinks: '{ §"audit": { "path": "./events.ndjson" } }' }),
    "a type that is mistyped": sink('"type": §"flie", "path": "./events.ndjson"'),
    "a type in other letters": sink('"type": §"PagerDuty", "routingKey": "k"'),
    "a type that there is not": sink('"type": §"gcs", "bucket": "events"'),
    "a type by another name": sink('"type": §"webhook", "url": "https://example.com"'),
    "a mistyped key": file('§"concurency": 2'),
    "a key of delivery beside the sink's own": file('§"retry": { "maxAttempts": 3 }'),
    "a key of delivery.retry beside the sink's own": file('§"maxAttempts": 3'),
    "a key of another type of sink": file('§"url": "https://example.com"'),
    "two sinks that write to one file": two(
      '{ "type": "file", "path": "./data//events.ndjson" }',
      '{ "type": "file", "path": §"data/./events.ndjson" }',
    ),
    "a sink that writes into the journal": sink('"type": "file", "path": §"./data/journal.db"'),
    "a sink that writes into the journal's lock": sink('"type": "file", "path": §"data/journal.db-lock"'),
    "a sink without a route": two('{ "type": "console" }', '{ "type": "console" }')
      .replace('"copy": {', '§"copy": {')
      .replace('"audit", "copy"', '"audit"'),
    "a sink renamed from a sink that is still there": file('"renamedFrom": §"audit"'),
    "two sinks renamed from one": two(
      '{ "type": "console", "renamedFrom": "old" }',
      '{ "type": "console", "renamedFrom": §"old" }',
    ),
    "no requests at a time": file('"concurrency": §0'),
    "a backlog without its size": file('§"backlog": { "whenFull": "deadLetter" }'),
    "an order that there is not": file('"order": §"keys"'),
    "a template with an unknown placeholder": file('"key": §"{{acount_id}}"'),
    "a placeholder with a dot in place of a pointer": file('"key": §"{{data.object.id}}"'),
    "a template that is not closed": file('"key": §"{{account_id"'),
    "a placeholder in single braces": slack('"summary": §"{type} failed"'),
    "a URL without its scheme": sink('"type": "http", "url": §"example.com/hooks"'),
    "a URL of another scheme": sink('"type": "http", "url": §"ftp://example.com/hooks"'),
    "a URL whose host is a placeholder": sink('"type": "http", "url": §"https://{{account_id}}.example.com"'),
    "a method that events aren't sent by": http('"method": §"GET"'),
    "a body without its format": http('"body": §{ "text": "{{type}}" }'),
    "a template without a body": http('"format": "template"').replace('"audit"', '§"audit"'),
    "a mode without its format": http('"mode": §"structured"'),
    "a bad placeholder deep in a body": http('"format": "template", "body": { "text": ["ok {{type}}", §"{{typ}}"] }'),
    "an expression with a word too many": http(
      '"format": "template", "body": { "jmespath": "{id: id, \\"of\\": data.type §data.object}" }',
    ),
    "an expression that ends too early": http(
      '"format": "template", "body": { "jmespath": "data.object.[id, start_at§" }',
    ),
    "a mistyped function of an expression": file('"key": { "jmespath": "§uper(data.object.id)" }'),
    "a number of an expression without its backticks": file('"key": { "jmespath": "data.object.id == §5" }'),
    "a variable that expressions do not have": file('"key": { "jmespath": "join(\'/\', [§$webhok, id])" }'),
    "an expression that fails for every event type": http(
      '"format": "template", "body": { "jmespath": §"sum(data.object.lines[].price)" }',
    ),
    "an expression from a file that is wrong": {
      config: file('"key": { "jmespath": §"file:key.jmespath" }'),
      files: { "key.jmespath": "data.\n  object..id" },
    },
    "an expression that isn't text": file('"key": { "jmespath": §5 }'),
    "headers as a list": http('"headers": §["authorization: Bearer x"]'),
    "a header's name with a blank": http('"headers": { §"x header": "y" }'),
    "a header that the relay writes": http('"headers": { "content-length": §"3" }'),
    "an answer that isn't a status": http('"classify": { "9xx": §"retry" }'),
    "an answer that means what there is not": http('"classify": { "409": §"ok" }'),
    "a client certificate without its key": http('§"tls": { "certificate": "cert.pem" }'),
    "a check of certificates that is to be switched off": http('"tls": { §"rejectUnauthorized": false }'),
    "a digest where each event is sent by itself": file('§"digest": {}'),
    "a digest of raw deliveries": http('§"digest": {}'),
    "a digest by nothing": slack('"digest": { "by": §[] }'),
    "a digest with an order and with an unknown field, that never fills": slack(
      '§"order": "key", "digest": { "by": ["typ", "count"], "maxEvents": 20 }, "delivery": { "maxRetrying": 10 }',
    ),
    "a digest whose oldest events would be given up by themselves": slack(
      '"digest": {}, "backlog": §{ "max": 10, "whenFull": "deadLetter" }',
    ),
    "alerts where each event is sent by itself": file('§"alert": {}'),
    "alerts beside a digest and an order": slack('"alert": { "by": [§"typ"] }, "digest": {}, "order": "key"'),
    "an alert whose cause is not a pattern": slack(
      '"alert": { "inhibitedBy": { "match": [§"connected_account.*_failed|x"] } }',
    ),
    "an alert whose cause matches nothing": slack(
      '"alert": { "inhibitedBy": { "match": [§"connected_acount.*_failed"] } }',
    ),
    "an alert that is repeated in words": slack('"alert": { "repeat": §"hourly" }'),
    "an alert that its recovery would not find": slack('§"resolve": true, "alert": { "by": ["type"] }'),
    "a recovery that would not find its alert": slack('§"resolve": true, "digest": { "by": ["type", "account_id"] }'),
    "a recovery in an order of another kind": slack('"resolve": true, §"key": "{{account_id}}"'),
    "a wait that begins longer than it may be": file('"delivery": { "retry": §{ "initial": "1 hour" } }'),
    "attempts without end, in words": file('"delivery": { "retry": { "maxAttempts": §"unlimited" } }'),
    "a number of retries in place of their keys": file('"delivery": { "retry": §5 }'),
  },
}
