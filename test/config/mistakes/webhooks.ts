/** Webhooks and the two listeners. */
import { canary } from "../../cli/configs.ts"
import { config, secretsOf, type Theme, webhook, webhookWith } from "./Mistake.ts"

const secrets = '"secrets": [{ "name": "a", "value": "a-long-signing-secret-b" }]'
const withPath = (path: string): string => webhook(`"path": §"${path}", ${secrets}`)

const silentWithin = (hours: string, timeZone: string): string =>
  webhookWith(`"silentAfter": { "duration": "2 weeks", "hours": ${hours}, "timeZone": ${timeZone} }`)

const token = (name: string, role = "read", more = ""): string =>
  `{ "name": "${name}", "role": "${role}", "value": "${canary}${more}" }`
const tokens = (list: string): string => config({ admin: `{ "tokens": ${list} }` })

export const webhooks: Theme = {
  title: "Webhooks and listeners",
  mistakes: [
    { name: "no webhook", config: config({ webhooks: "{}" }).replace('"webhooks"', '§"webhooks"') },
    { name: "a webhook for the whole file", config: config({ webhooks: `{ "path": §"/hooks", "secrets": [] }` }) },
    { name: "a path without its slash", config: withPath("hooks") },
    { name: "a URL for a path", config: withPath("https://relay.example.com/hooks") },
    { name: "a path with a query", config: withPath("/hooks?source=x") },
    { name: "a path with a fragment", config: withPath("/hooks#x") },
    { name: "a path with an escape", config: withPath("/h%6Foks") },
    { name: "a path with a letter that no URL has", config: withPath("/höoks") },
    { name: "a path with a wildcard", config: withPath("/hooks/*") },
    { name: "a path with a parameter", config: withPath("/hooks/{id}") },
    { name: "a path with a direction mark", config: withPath("/a\\u202eb") },
    { name: "a path that goes up", config: withPath("/hooks/../x") },
    { name: "a path with two slashes", config: withPath("//hooks") },
    {
      name: "a path at which the relay answers a probe",
      config: withPath("/readyz").replace('"webhooks"', '"probes": true,\n  "webhooks"'),
    },
    { name: "a path that is too long", config: withPath(`/${"h".repeat(1_000)}`) },
    { name: "an id with a letter that no header has", config: webhookWith('"id": ["wh_1", §"wh_é"]') },
    { name: "an id with a blank", config: webhookWith('"id": §" wh_1"') },
    { name: "an id that is too long", config: webhookWith(`"id": §"${"w".repeat(257)}"`) },
    { name: "one secret instead of a list", config: webhook('"path": "/hooks", §"secret": "b"') },
    { name: "no secret at all", config: secretsOf("§[]") },
    {
      name: "two secrets of one name",
      config: secretsOf(
        '[{ "name": "now", "value": "a-long-signing-secret-a" }, { "name": §"now", "value": "a-long-signing-secret-b" }]',
      ),
    },
    {
      name: "secrets that have all expired",
      config: secretsOf(
        '[{ "name": "old", "value": "a-long-signing-secret-a", "expires": "2020-01-01T00:00:00Z" }]',
      ).replace('"secrets"', '§"secrets"'),
    },
    { name: "a body larger than all in flight may be", config: webhookWith('"maxBody": §"65 MiB"') },
    {
      name: "a commit that may take longer than a connection stays",
      config: webhookWith('"commitTimeout": §"2 minutes"'),
    },
    {
      name: "an idle time that no runtime has",
      config: webhookWith("").replace('"webhooks"', '"idleTimeout": §"10 minutes",\n  "webhooks"'),
    },
    {
      name: "a socket with a path that the system can't have",
      config: webhookWith("").replace('"webhooks"', `"listen": §"unix:/run/${"r".repeat(100)}",\n  "webhooks"`),
    },
    {
      name: "a socket for the admin API",
      config: config({ admin: '{ "listen": §"unix:/run/relay.sock" }' }),
    },
    {
      name: "rights of a socket without a socket",
      config: webhookWith("").replace('"webhooks"', '"socket": §{ "mode": "0666" },\n  "webhooks"'),
    },
    {
      name: "a mode without its zero",
      config: webhookWith("").replace(
        '"webhooks"',
        '"listen": "unix:/run/relay.sock",\n  "socket": { "mode": §"666" },\n  "webhooks"',
      ),
    },
    {
      name: "a socket with TLS",
      config: webhookWith("").replace(
        '"webhooks"',
        '"listen": "unix:/run/relay.sock",\n  "tls": §{ "certificate": "cert.pem", "key": "key.pem" },\n  "webhooks"',
      ),
    },
    {
      name: "headers larger than the relay takes",
      config: webhookWith("").replace('"webhooks"', '"maxHeaders": §"2 MiB",\n  "webhooks"'),
    },
    { name: "a silence without its unit", config: webhookWith('"silentAfter": §"2h"') },
    { name: "hours that end when they begin", config: silentWithin('§"08:00-08:00"', '"Europe/Berlin"') },
    { name: "hours in another notation", config: silentWithin('§"8am-6pm"', '"Europe/Berlin"') },
    { name: "a time zone that is none", config: silentWithin('"08:00-18:00"', '§"Europe/Bonn"') },
    { name: "an offset for a time zone", config: silentWithin('"08:00-18:00"', '§"+01:00"') },
    {
      name: "a silence longer than its hours of a year",
      config: silentWithin('"08:00-08:01"', '"UTC"').replace('"silentAfter": {', '"silentAfter": §{'),
    },
    { name: "a header that is none", config: webhookWith('"headers": { "signature": §"x signature:" }') },
    {
      name: "one header for both",
      config: webhookWith('"headers": §{ "signature": "X-Same", "webhookId": "x-same" }'),
    },
    {
      name: "a webhook with the name of the relay's own events",
      config: config({ webhooks: `{ §"relay": { "path": "/hooks", ${secrets} } }` }),
    },
    {
      name: "two webhooks with one path and no id",
      config: config({
        webhooks: `{\n    "one": { "path": "/hooks", ${secrets} },\n    "two": { "path": §"/hooks", "secrets": [{ "name": "a", "value": "a-long-signing-secret-c" }] }\n  }`,
      }),
    },
    {
      name: "two webhooks with one path and id",
      config: config({
        webhooks: `{\n    "one": { "path": "/hooks", "id": ["wh_1", "wh_2"], ${secrets} },\n    "two": { "path": "/hooks", "id": §"wh_2", "secrets": [{ "name": "a", "value": "a-long-signing-secret-c" }] }\n  }`,
      }),
    },
    {
      name: "two webhooks with one path and secret",
      config: config({
        webhooks: `{
    "one": { "path": "/hooks", "id": "wh_1", "secrets": [{ "name": "a", "value": "a-long-signing-secret-\\u0062" }] },
    "two": { "path": "/other", "id": "wh_2", "secrets": [{ "name": "a", "value": "a-long-signing-secret-b" }] },
    "three": { "path": "/hooks", "id": "wh_3", "secrets": [{ "name": "x", "value": "a-long-signing-secret-c" }, { "name": "y", "value": §"a-long-signing-secret-b" }] }
  }`,
      }),
    },
    { name: "the receiver beyond this machine without TLS", config: config({ listen: '§"0.0.0.0:8080"' }) },
    { name: "TLS with half of it missing", config: config({ more: '§"tls": { "certificate": "cert.pem" }' }) },
    {
      name: "the admin API beyond this machine without a token",
      config: config({ admin: '{ "listen": §"0.0.0.0:9080" }' }),
    },
    { name: "no token in the list", config: tokens("§[]") },
    {
      name: "one token for all beside a list",
      config: config({ admin: `{ "token": §"${canary}", "tokens": [${token("ada")}] }` }),
    },
    {
      name: "two tokens of one name",
      config: tokens(`[${token("ada")}, ${token("ada", "read", "-2").replace('"ada"', '§"ada"')}]`),
    },
    {
      name: "two tokens of one text",
      config: tokens(`[${token("ada")}, ${token("screen").replace(`"${canary}`, `§"${canary}`)}]`),
    },
    {
      name: "a token that is called as another is",
      config: tokens(`[${token("admin").replace('"admin"', '§"admin"')}]`),
    },
    { name: "a token with another role", config: tokens(`[${token("ada", "write").replace('"write"', '§"write"')}]`) },
    { name: "one address for both listeners", config: config({ admin: '{ "listen": §"127.0.0.1:8080" }' }) },
  ],
}
