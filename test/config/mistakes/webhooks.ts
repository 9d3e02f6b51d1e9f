/** Webhooks and the two listeners. */
import { canary } from "../../cli/configs.ts"
import { config, secretsOf, type Theme, webhook, webhookWith } from "./Mistake.ts"

const secrets = '"secrets": [{ "name": "a", "value": "a-long-signing-secret-b" }]'
const withPath = (path: string): string => webhook(`"path": §"${path}", ${secrets}`)

const places = '"event": { "type": "/type", "id": "/id", "types": "a.b" }'
const unverified = webhook(`"path": "/hooks", "secrets": [], "verify": §"none", ${places}`)

const silentWithin = (hours: string, timeZone: string): string =>
  webhookWith(`"silentAfter": { "duration": "2 weeks", "hours": ${hours}, "timeZone": ${timeZone} }`)

const token = (name: string, role = "read", more = ""): string =>
  `{ "name": "${name}", "role": "${role}", "value": "${canary}${more}" }`
const tokens = (list: string): string => config({ admin: `{ "tokens": ${list} }` })

export const webhooks: Theme = {
  title: "Webhooks and listeners",
  mistakes: {
    "no webhook": config({ webhooks: "{}" }).replace('"webhooks"', '§"webhooks"'),
    "a webhook for the whole file": config({ webhooks: `{ "path": §"/hooks", "secrets": [] }` }),
    "a path without its slash": withPath("hooks"),
    "a URL for a path": withPath("https://relay.example.com/hooks"),
    "a path with a query": withPath("/hooks?source=x"),
    "a path with a fragment": withPath("/hooks#x"),
    "a path with an escape": withPath("/h%6Foks"),
    "a path with a letter that no URL has": withPath("/höoks"),
    "a path with a wildcard": withPath("/hooks/*"),
    "a path with a parameter": withPath("/hooks/{id}"),
    "a path with a direction mark": withPath("/a\\u202eb"),
    "a path that goes up": withPath("/hooks/../x"),
    "a path with two slashes": withPath("//hooks"),
    "a path at which the relay answers a probe": withPath("/readyz").replace(
      '"webhooks"',
      '"probes": true,\n  "webhooks"',
    ),
    "a path that is too long": withPath(`/${"h".repeat(1_000)}`),
    "no verification beyond this machine": unverified.replace(
      '"webhooks"',
      '"listen": "0.0.0.0:8080", "behindProxy": true,\n  "webhooks"',
    ),
    "no verification on this machine": unverified,
    "a token without TLS": webhookWith(`"verify": §"bearer", ${places}`),
    "a token with its scheme": webhook(
      `"path": "/hooks", "secrets": [{ "name": "now", "value": §"Bearer a-long-token-of-billing" }], "verify": "bearer", ${places}`,
    ).replace('"webhooks"', '"behindProxy": true,\n  "webhooks"'),
    "a user without a password": webhook(
      `"path": "/hooks", "secrets": [{ "name": "now", "value": §"a-long-signing-secret-b" }], "verify": "basic", ${places}`,
    ).replace('"webhooks"', '"behindProxy": true,\n  "webhooks"'),
    "a public key that is too short": webhook(
      '"path": "/hooks", "secrets": [{ "name": "now", "value": §"whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" }], "verify": "svix", "event": { "types": "a.b" }',
    ),
    "a verify token for the scheduling service": webhookWith('§"verifyToken": "a-verify-token"'),
    "a place by a wrong expression": webhookWith(
      '"verify": "github", "event": { "account": { "jmespath": "repository.[§0" }, "types": "push" }',
    ),
    "a scheme of no sender": webhookWith('"verify": §"gitlab"'),
    "a scheme in which nothing is signed": webhookWith(
      '"verify": { "header": "x-sign", "signed": §"{{timestamp}}", "timestamp": "x-time" }, "event": { "id": "/id", "type": "/type", "types": "a.b" }',
    ),
    "a scheme that signs a time from nowhere": webhookWith(
      '"verify": { "header": "x-sign", "signed": §"{{timestamp}}.{{body}}" }, "event": { "id": "/id", "type": "/type", "types": "a.b" }',
    ),
    "a scheme that does not sign its time": webhookWith(
      '"verify": { "header": "x-sign", "timestamp": §"x-time" }, "event": { "id": "/id", "type": "/type", "types": "a.b" }',
    ),
    "a scheme with an unknown placeholder": webhookWith(
      '"verify": { "header": "x-sign", "signed": §"{{url}}{{body}}" }, "event": { "id": "/id", "type": "/type", "types": "a.b" }',
    ),
    "a scheme with its time in a part of a header without parts": webhookWith(
      '"verify": { "header": "x-sign", "signed": "{{timestamp}}.{{body}}", "timestamp": §"t=" }, "event": { "id": "/id", "type": "/type", "types": "a.b" }',
    ),
    "a sender whose events have no type": webhookWith(
      '"verify": §{ "header": "x-sign" }, "event": { "id": "/id", "types": "a.b" }',
    ),
    "a sender whose events have no id": webhookWith(
      '"verify": §{ "header": "x-sign" }, "event": { "type": "/type", "types": "a.b" }',
    ),
    "a pattern for a sender whose types are not listed": webhookWith('"verify": "github"').replace(
      '"match": "**"',
      '"match": §"issues.*"',
    ),
    "a place that is neither a header nor a pointer": webhookWith(
      '"verify": "github", "event": { "account": §"repository.full_name", "types": "push" }',
    ),
    "places without a scheme": webhookWith('§"event": { "type": "/type" }'),
    "a webhook id for another sender": webhookWith('§"id": "wh_1", "verify": "github", "event": { "types": "push" }'),
    "a secret of Svix that is no base64": webhook(
      '"path": "/hooks", "secrets": [{ "name": "now", "value": §"a-long-signing-secret-b" }], "verify": "svix", "event": { "types": "a.b" }',
    ),
    "a type of another sender that looks like the relay's own": webhookWith(
      '"verify": "github", "event": { "types": ["push", §"relay.dead_letter"] }',
    ),
    "a pattern that matches no listed type of another sender": webhookWith(
      '"verify": "stripe", "event": { "types": ["invoice.paid"] }',
    ).replace('"match": "**"', '"match": §"invoice.payd"'),
    "an id with a letter that no header has": webhookWith('"id": ["wh_1", §"wh_é"]'),
    "an id with a blank": webhookWith('"id": §" wh_1"'),
    "an id that is too long": webhookWith(`"id": §"${"w".repeat(257)}"`),
    "one secret instead of a list": webhook('"path": "/hooks", §"secret": "b"'),
    "no secret at all": secretsOf("§[]"),
    "two secrets of one name": secretsOf(
      '[{ "name": "now", "value": "a-long-signing-secret-a" }, { "name": §"now", "value": "a-long-signing-secret-b" }]',
    ),
    "secrets that have all expired": secretsOf(
      '[{ "name": "old", "value": "a-long-signing-secret-a", "expires": "2020-01-01T00:00:00Z" }]',
    ).replace('"secrets"', '§"secrets"'),
    "a body larger than all in flight may be": webhookWith('"maxBody": §"65 MiB"'),
    "a commit that may take longer than a connection stays": webhookWith('"commitTimeout": §"2 minutes"'),
    "an idle time that no runtime has": webhookWith("").replace(
      '"webhooks"',
      '"idleTimeout": §"10 minutes",\n  "webhooks"',
    ),
    "a socket with a path that the system can't have": webhookWith("").replace(
      '"webhooks"',
      `"listen": §"unix:/run/${"r".repeat(100)}",\n  "webhooks"`,
    ),
    "a socket for the admin API": config({ admin: '{ "listen": §"unix:/run/relay.sock" }' }),
    "rights of a socket without a socket": webhookWith("").replace(
      '"webhooks"',
      '"socket": §{ "mode": "0666" },\n  "webhooks"',
    ),
    "a mode without its zero": webhookWith("").replace(
      '"webhooks"',
      '"listen": "unix:/run/relay.sock",\n  "socket": { "mode": §"666" },\n  "webhooks"',
    ),
    "a socket with TLS": webhookWith("").replace(
      '"webhooks"',
      '"listen": "unix:/run/relay.sock",\n  "tls": §{ "certificate": "cert.pem", "key": "key.pem" },\n  "webhooks"',
    ),
    "headers larger than the relay takes": webhookWith("").replace(
      '"webhooks"',
      '"maxHeaders": §"2 MiB",\n  "webhooks"',
    ),
    "a silence without its unit": webhookWith('"silentAfter": §"2h"'),
    "hours that end when they begin": silentWithin('§"08:00-08:00"', '"Europe/Berlin"'),
    "hours in another notation": silentWithin('§"8am-6pm"', '"Europe/Berlin"'),
    "a time zone that is none": silentWithin('"08:00-18:00"', '§"Europe/Bonn"'),
    "an offset for a time zone": silentWithin('"08:00-18:00"', '§"+01:00"'),
    "a silence longer than its hours of a year": silentWithin('"08:00-08:01"', '"UTC"').replace(
      '"silentAfter": {',
      '"silentAfter": §{',
    ),
    "a header that is none": webhookWith('"headers": { "signature": §"x signature:" }'),
    "one header for both": webhookWith('"headers": §{ "signature": "X-Same", "webhookId": "x-same" }'),
    "a webhook with the name of the relay's own events": config({
      webhooks: `{ §"relay": { "path": "/hooks", ${secrets} } }`,
    }),
    "two webhooks with one path and no id": config({
      webhooks: `{\n    "one": { "path": "/hooks", ${secrets} },\n    "two": { "path": §"/hooks", "secrets": [{ "name": "a", "value": "a-long-signing-secret-c" }] }\n  }`,
    }),
    "two webhooks with one path and id": config({
      webhooks: `{\n    "one": { "path": "/hooks", "id": ["wh_1", "wh_2"], ${secrets} },\n    "two": { "path": "/hooks", "id": §"wh_2", "secrets": [{ "name": "a", "value": "a-long-signing-secret-c" }] }\n  }`,
    }),
    "two webhooks with one path and secret": config({
      webhooks: `{
    "one": { "path": "/hooks", "id": "wh_1", "secrets": [{ "name": "a", "value": "a-long-signing-secret-\\u0062" }] },
    "two": { "path": "/other", "id": "wh_2", "secrets": [{ "name": "a", "value": "a-long-signing-secret-b" }] },
    "three": { "path": "/hooks", "id": "wh_3", "secrets": [{ "name": "x", "value": "a-long-signing-secret-c" }, { "name": "y", "value": §"a-long-signing-secret-b" }] }
  }`,
    }),
    "the receiver beyond this machine without TLS": config({ listen: '§"0.0.0.0:8080"' }),
    "TLS with half of it missing": config({ more: '§"tls": { "certificate": "cert.pem" }' }),
    "the admin API beyond this machine without a token": config({ admin: '{ "listen": §"0.0.0.0:9080" }' }),
    "no token in the list": tokens("§[]"),
    "one token for all beside a list": config({ admin: `{ "token": §"${canary}", "tokens": [${token("ada")}] }` }),
    "two tokens of one name": tokens(`[${token("ada")}, ${token("ada", "read", "-2").replace('"ada"', '§"ada"')}]`),
    "two tokens of one text": tokens(`[${token("ada")}, ${token("screen").replace(`"${canary}`, `§"${canary}`)}]`),
    "a token that is called as another is": tokens(`[${token("admin").replace('"admin"', '§"admin"')}]`),
    "a token with another role": tokens(`[${token("ada", "write").replace('"write"', '§"write"')}]`),
    "one address for both listeners": config({ admin: '{ "listen": §"127.0.0.1:8080" }' }),
  },
}
