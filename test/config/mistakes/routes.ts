/** Routes, their patterns, tests of them, and client details. */
import { config, file, match, route, slack, type Theme } from "./Mistake.ts"

const clients = (inside: string): string =>
  slack('"enrich": "deliver"').replace('\n  "routes"', `\n  "clients": { ${inside} },\n  "routes"`)

export const routes: Theme = {
  title: "Routes, tests, client details",
  mistakes: [
    { name: "no route", config: config({ routes: "[]" }).replace('"routes"', '§"routes"') },
    { name: "a route without its name", config: config({ routes: '[§{ "match": "**", "to": "audit" }]' }) },
    {
      name: "sinks under another name",
      config: config({ routes: '[{ "name": "a", "match": "**", §"sinks": ["audit"] }]' }),
    },
    {
      name: "a route to an unknown sink",
      config: config({ routes: '[{ "name": "a", "match": "**", "to": ["audit", §"adit"] }]' }),
    },
    { name: "sinks as one text", config: config({ routes: '[{ "name": "a", "match": "**", "to": §"audit, chat" }]' }) },
    { name: "a route that leads nowhere", config: config({ routes: '[{ "name": "a", "match": "**", "to": §[] }]' }) },
    { name: "a route of an unknown webhook", config: route('"webhook": §"schedulin"') },
    {
      name: "a webhook that no route takes",
      config: route('"webhook": "other"').replace(
        '"scheduling": {',
        '"other": { "path": "/other", "secrets": [{ "name": "a", "value": "a-long-signing-secret-b" }] },\n    §"scheduling": {',
      ),
    },
    {
      name: "two routes of one name",
      config: config({
        routes: '[{ "name": "a", "match": "**", "to": "audit" }, { "name": §"a", "match": "client.*", "to": "audit" }]',
      }),
    },
    { name: "patterns in one text", config: match('§"appointment.*,client.*"') },
    { name: "patterns in one text, as in a regular expression", config: match('§"appointment.*|client.*"') },
    { name: "a regular expression", config: match('§"^appointment\\\\..*$"') },
    { name: "a pattern of a single star", config: match('§"*"') },
    { name: "a pattern without a star", config: match('§"appointment"') },
    { name: "a pattern with a typing error", config: match('§"appointment.meetng.*_failed"') },
    { name: "a pattern in capitals", config: match('§"Appointment.Created"') },
    { name: "a pattern that is to exclude", config: match('["**", §"!client.*"]') },
    { name: "a pattern with an empty segment", config: match('§"appointment..created"') },
    { name: "a pattern with two stars in a segment", config: match('§"appointment.**_failed"') },
    { name: "a pattern that is not closed", config: match('§"appointment.{created,deleted"') },
    { name: "a pattern with one choice", config: match('§"appointment.{created}"') },
    { name: "a pattern whose braces stand for too much", config: match(`§"${"{a,b}".repeat(14)}"`) },
    { name: "the relay's own events from within braces", config: match('§"{relay,client}.*"') },
    { name: "an own event that there is not", config: match('§"relay.lane_pausd"') },
    {
      name: "an exception that takes all that the route matches",
      config: match('"client.*"', '"except": §"client.**", '),
    },
    {
      name: "an exception that matches nothing of the route",
      config: match('"client.*"', '"except": §"appointment.*", '),
    },
    { name: "a condition that isn't a pointer", config: route('"where": { §"data.object.id": "x" }') },
    {
      name: "a condition that is none of those that there are",
      config: route('"where": { "/account_id": { §"in": ["x"] } }'),
    },
    {
      name: "an expression that compares with one sign",
      config: route('"where": { "jmespath": "data.object.kind §= `1`" }'),
    },
    { name: "a condition by an expression that isn't text", config: route('"where": { "jmespath": §["id"] }') },
    { name: "conditions of a field as a list", config: route('"where": { "/account_id": [§{ "prefix": "acct_" }] }') },
    { name: "a prefix that is a number", config: route('"where": { "/account_id": { "prefix": §5 } }') },
    { name: "whether a field exists, as text", config: route('"where": { "/data/object/x": { "exists": §"yes" } }') },
    { name: "not, as a word", config: route('"where": { "/data/object/x": { "not": { §"not": "x" } } }') },
    { name: "a value of no values", config: route('"where": { "/data/object/x": §[] }') },
    { name: "a condition of no conditions", config: route('"where": { "/data/object/x": { "not": §{} } }') },
    { name: "an empty prefix", config: route('"where": { "/data/object/x": { "prefix": §"" } }') },
    { name: "a number for a field that is text", config: route('"where": { "/account_id": ["acct_1", §5] }') },
    {
      name: "values that never begin with the prefix",
      config: route('"where": { "/data/object/x": §{ "oneOf": ["a", "b"], "prefix": "c" } }'),
    },
    {
      name: "a prefix that is excluded",
      config: route('"where": { "/data/object/x": §{ "prefix": ["ab", "ac"], "not": { "prefix": "a" } } }'),
    },
    {
      name: "the value of a field that is not there",
      config: route('"where": { "/data/object/x": §{ "oneOf": [null], "exists": false } }'),
    },
    { name: "a field that is never absent", config: route('"where": { "/data/type": §{ "exists": false } }') },
    { name: "a field below text", config: route('"where": { "/account_id/name": §"x" }') },
    { name: "a value of an object", config: route('"where": { "/data/object": §"x" }') },
    { name: "a condition that always holds", config: route('"where": { "/id": §{ "exists": true } }') },
    {
      name: "a condition on a field that the envelope does not have",
      config: route('"where": { §"/acount_id": "acct_1" }'),
    },
    {
      name: "a condition on the relay's own events",
      config: match('"relay.*"', '§"where": { "/data/object/sink": "lake" }, '),
    },
    {
      name: "a test of an unknown sink",
      config: config({ tests: '[{ "event": "client.created", "to": [§"audits"] }]' }),
    },
    { name: "a test of an unknown type", config: config({ tests: '[{ "event": §"client.creatd", "to": "audit" }]' }) },
    {
      name: "a golden file of a sink that the event does not go to",
      config: config({ tests: '[{ "event": "client.created", "to": "audit", "payloads": { §"oncall": "a.json" } }]' }),
    },
    {
      name: "a test with two objects",
      config: config({
        tests: '[{ "event": "client.created", "to": "audit", §"object": {}, "sample": "client.json" }]',
      }),
    },
    {
      name: "a test whose sample is not there",
      config: config({ tests: '[{ "event": "client.created", "to": "audit", "sample": "client.json" }]' }),
      command: ["test"],
    },
    {
      name: "a test with a sample that isn't an event",
      config: config({ tests: '[{ "event": "client.created", "to": "audit", "sample": "client.json" }]' }),
      files: { "client.json": "{}" },
      command: ["test"],
    },
    {
      name: "a test whose event goes elsewhere",
      config: config({ tests: '[{ "event": "client.created", "to": [] }]' }),
      command: ["test"],
    },
    {
      name: "a test whose golden file is not there",
      config: config({ tests: '[{ "event": "client.created", "to": "audit", "payloads": { "audit": "a.json" } }]' }),
      command: ["test"],
    },
    { name: "client details without an API to get them from", config: slack('§"enrich": "wait"') },
    {
      name: "client details in a sink that sends events as they came",
      config: file('§"enrich": "wait"').replace(
        '\n  "routes"',
        '\n  "clients": { "baseUrl": "https://api.example.com" },\n  "routes"',
      ),
    },
    { name: "an API without its scheme", config: clients('"baseUrl": §"api.example.com"') },
    {
      name: "an API of client details with a wrong pattern and a wrong place",
      config: clients('"baseUrl": "https://api.example.com", "events": { §"client..*": "/a", "client.*": "data" }'),
    },
    {
      name: "client details that no sink needs",
      config: config({ clients: '{ "baseUrl": "https://api.example.com" }' }).replace('"clients"', '§"clients"'),
    },
  ],
}
