/** Routes, their patterns, tests of them, and client details. */
import { config, file, match, route, slack, type Theme } from "./Mistake.ts"

const clients = (inside: string): string =>
  slack('"enrich": "deliver"').replace('\n  "routes"', `\n  "clients": { ${inside} },\n  "routes"`)

export const routes: Theme = {
  title: "Routes, tests, client details",
  mistakes: {
    "no route": config({ routes: "[]" }).replace('"routes"', '§"routes"'),
    "a route without its name": config({ routes: '[§{ "match": "**", "to": "audit" }]' }),
    "sinks under another name": config({ routes: '[{ "name": "a", "match": "**", §"sinks": ["audit"] }]' }),
    "a route to an unknown sink": config({ routes: '[{ "name": "a", "match": "**", "to": ["audit", §"adit"] }]' }),
    "sinks as one text": config({ routes: '[{ "name": "a", "match": "**", "to": §"audit, chat" }]' }),
    "a route that leads nowhere": config({ routes: '[{ "name": "a", "match": "**", "to": §[] }]' }),
    "a route of an unknown webhook": route('"webhook": §"schedulin"'),
    "a webhook that no route takes": route('"webhook": "other"').replace(
      '"scheduling": {',
      '"other": { "path": "/other", "secrets": [{ "name": "a", "value": "a-long-signing-secret-b" }] },\n    §"scheduling": {',
    ),
    "two routes of one name": config({
      routes: '[{ "name": "a", "match": "**", "to": "audit" }, { "name": §"a", "match": "client.*", "to": "audit" }]',
    }),
    "patterns in one text": match('§"appointment.*,client.*"'),
    "patterns in one text, as in a regular expression": match('§"appointment.*|client.*"'),
    "a regular expression": match('§"^appointment\\\\..*$"'),
    "a pattern of a single star": match('§"*"'),
    "a pattern without a star": match('§"appointment"'),
    "a pattern with a typing error": match('§"appointment.meetng.*_failed"'),
    "a pattern in capitals": match('§"Appointment.Created"'),
    "a pattern that is to exclude": match('["**", §"!client.*"]'),
    "a pattern with an empty segment": match('§"appointment..created"'),
    "a pattern with two stars in a segment": match('§"appointment.**_failed"'),
    "a pattern that is not closed": match('§"appointment.{created,deleted"'),
    "a pattern with one choice": match('§"appointment.{created}"'),
    "a pattern whose braces stand for too much": match(`§"${"{a,b}".repeat(14)}"`),
    "the relay's own events from within braces": match('§"{relay,client}.*"'),
    "an own event that there is not": match('§"relay.lane_pausd"'),
    "an exception that takes all that the route matches": match('"client.*"', '"except": §"client.**", '),
    "an exception that matches nothing of the route": match('"client.*"', '"except": §"appointment.*", '),
    "hours of a route without a time zone": route('§"within": { "hours": "08:00-18:00" }'),
    "hours of a route as in Alertmanager": route('§"active_time_intervals": ["day"]'),
    "hours of a route that are words": route('"within": { "hours": §"daytime", "timeZone": "UTC" }'),
    "a condition that isn't a pointer": route('"where": { §"data.object.id": "x" }'),
    "a condition that is none of those that there are": route('"where": { "/account_id": { §"in": ["x"] } }'),
    "an expression that compares with one sign": route('"where": { "jmespath": "data.object.kind §= `1`" }'),
    "a condition by an expression that isn't text": route('"where": { "jmespath": §["id"] }'),
    "conditions of a field as a list": route('"where": { "/account_id": [§{ "prefix": "acct_" }] }'),
    "a prefix that is a number": route('"where": { "/account_id": { "prefix": §5 } }'),
    "whether a field exists, as text": route('"where": { "/data/object/x": { "exists": §"yes" } }'),
    "not, as a word": route('"where": { "/data/object/x": { "not": { §"not": "x" } } }'),
    "a value of no values": route('"where": { "/data/object/x": §[] }'),
    "a condition of no conditions": route('"where": { "/data/object/x": { "not": §{} } }'),
    "an empty prefix": route('"where": { "/data/object/x": { "prefix": §"" } }'),
    "a number for a field that is text": route('"where": { "/account_id": ["acct_1", §5] }'),
    "values that never begin with the prefix": route(
      '"where": { "/data/object/x": §{ "oneOf": ["a", "b"], "prefix": "c" } }',
    ),
    "a prefix that is excluded": route(
      '"where": { "/data/object/x": §{ "prefix": ["ab", "ac"], "not": { "prefix": "a" } } }',
    ),
    "the value of a field that is not there": route(
      '"where": { "/data/object/x": §{ "oneOf": [null], "exists": false } }',
    ),
    "a field that is never absent": route('"where": { "/data/type": §{ "exists": false } }'),
    "a field below text": route('"where": { "/account_id/name": §"x" }'),
    "a value of an object": route('"where": { "/data/object": §"x" }'),
    "a condition that always holds": route('"where": { "/id": §{ "exists": true } }'),
    "a condition on a field that the envelope does not have": route('"where": { §"/acount_id": "acct_1" }'),
    "a condition on the relay's own events": match('"relay.*"', '§"where": { "/data/object/sink": "lake" }, '),
    "a test of an unknown sink": config({ tests: '[{ "event": "client.created", "to": [§"audits"] }]' }),
    "a test of an unknown type": config({ tests: '[{ "event": §"client.creatd", "to": "audit" }]' }),
    "a golden file of a sink that the event does not go to": config({
      tests: '[{ "event": "client.created", "to": "audit", "payloads": { §"oncall": "a.json" } }]',
    }),
    "a test with two objects": config({
      tests: '[{ "event": "client.created", "to": "audit", §"object": {}, "sample": "client.json" }]',
    }),
    "a test whose sample is not there": {
      config: config({ tests: '[{ "event": "client.created", "to": "audit", "sample": "client.json" }]' }),
      command: ["test"],
    },
    "a test with a sample that isn't an event": {
      config: config({ tests: '[{ "event": "client.created", "to": "audit", "sample": "client.json" }]' }),
      files: { "client.json": "{}" },
      command: ["test"],
    },
    "a test whose event goes elsewhere": {
      config: config({ tests: '[{ "event": "client.created", "to": [] }]' }),
      command: ["test"],
    },
    "a test whose golden file is not there": {
      config: config({ tests: '[{ "event": "client.created", "to": "audit", "payloads": { "audit": "a.json" } }]' }),
      command: ["test"],
    },
    "client details without an API to get them from": slack('§"enrich": "wait"'),
    "client details in a sink that sends events as they came": file('§"enrich": "wait"').replace(
      '\n  "routes"',
      '\n  "clients": { "baseUrl": "https://api.example.com" },\n  "routes"',
    ),
    "an API without its scheme": clients('"baseUrl": §"api.example.com"'),
    "an API of client details with a wrong pattern and a wrong place": clients(
      '"baseUrl": "https://api.example.com", "events": { §"client..*": "/a", "client.*": "data" }',
    ),
    "client details that no sink needs": config({ clients: '{ "baseUrl": "https://api.example.com" }' }).replace(
      '"clients"',
      '§"clients"',
    ),
  },
}
