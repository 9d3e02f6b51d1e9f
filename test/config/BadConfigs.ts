/**
 * Configs with something wrong in them: text, and what a person is to read.
 *
 * Each says its place, its key and a hint. `§` in a text marks where the
 * (first) finding points and is taken out before the text is loaded, so that a
 * case can be read without counting columns.
 */
export interface BadConfig {
  readonly name: string
  readonly text: string
  readonly findings: ReadonlyArray<{
    readonly severity?: "warning"
    readonly key: string
    readonly message: string
    readonly hint?: string
  }>
}

/** A small config that is right; a case exchanges one of its lines. */
const whole = {
  webhooks: `"webhooks": { "scheduling": { "path": "/hooks", "secrets": [{ "name": "now", "value": "correct horse" }] } },`,
  sinks: `"sinks": { "audit": { "type": "file", "path": "./events.ndjson" } },`,
  routes: `"routes": [{ "name": "everything", "match": "**", "to": ["audit"] }],`,
}

const text = (lines: Partial<Record<keyof typeof whole | "more", string>>): string => {
  const { more, ...others } = lines
  return [
    "{",
    ...Object.values({ ...whole, ...others }).map((_) => `  ${_}`),
    ...(more ? [`  ${more}`] : []),
    "}",
  ].join("\n")
}

const webhook = (rest: string, secrets = `"secrets": [{ "name": "now", "value": "correct horse" }]`): string =>
  text({ webhooks: `"webhooks": { "scheduling": { "path": "/hooks", ${secrets}, ${rest} } },` })

const chat = (rest: string): string => text({ sinks: `"sinks": { "audit": { "type": "chat", ${rest} } },` })

const sink = (rest: string): string =>
  text({ sinks: `"sinks": { "audit": { "type": "file", "path": "./events.ndjson", ${rest} } },` })

const http = (rest: string): string =>
  text({ sinks: `"sinks": { "audit": { "type": "http", "url": "https://example.com", ${rest} } },` })

const route = (rest: string): string =>
  text({ routes: `"routes": [{ "name": "everything", "match": "**", "to": ["audit"], ${rest} }],` })

const encoded =
  "no request would match this: a path has letters, digits and `-._~!$&'()*+,;=:@/`, and what else stands in a URL comes percent-encoded"
const resolved =
  "no request would match this: segments `.` and `..` are resolved in a URL; write the path that they lead to"
const paths: ReadonlyArray<{ readonly path: string; readonly message: string }> = [
  { path: "/hooks?x=1", message: "a path has no spaces, no `?` and no `#`: a query is no part of it" },
  { path: "/hooks#x", message: "a path has no spaces, no `?` and no `#`: a query is no part of it" },
  {
    path: "/h%6Foks",
    message: "a path with `%` may come in several forms, of which only one would match: write it without",
  },
  ...["/höoks", "/a\\\\b", "/<a>", "/{a}", "/a|b", "/a\\u202eb"].map((path) => ({ path, message: encoded })),
  ...["/hooks/../x", "/./hooks", "/hooks/.."].map((path) => ({ path, message: resolved })),
  {
    path: "//hooks",
    message: "a path has no empty segment: `//` is one `/` to many a proxy; write `/`",
  },
  { path: `/${"h".repeat(1_000)}`, message: "a path has 1000 characters at most" },
]

export const badConfigs: ReadonlyArray<BadConfig> = [
  // What is no config at all
  {
    name: "an empty file",
    text: "§",
    findings: [{ key: "", message: "the file is empty", hint: "`relay init` writes a config to start from" }],
  },
  {
    name: "a list",
    text: "§[1, 2]",
    findings: [
      { key: "", message: "a config is an object: { … }", hint: "`relay init` writes a config to start from" },
    ],
  },
  {
    name: "text that is no JSON",
    text: "§listen = 8080",
    findings: [
      {
        key: "",
        message: "this is not a JSON value",
        hint: "text is in double quotes; other values are numbers, true, false, null",
      },
    ],
  },
  {
    name: "a missing comma",
    text: '{\n  "listen": "127.0.0.1:8080"\n  §"tests": []\n}',
    findings: [{ key: "", message: "a `,` is missing before this" }],
  },
  {
    name: "a missing colon",
    text: '{\n  "listen" §"127.0.0.1:8080"\n}',
    findings: [{ key: "", message: "a `:` is missing between key and value" }],
  },
  {
    name: "an object that is not closed",
    text: '{\n  "listen": "127.0.0.1:8080"§',
    findings: [{ key: "", message: "a `}` is missing: an object is not closed" }],
  },
  {
    name: "a text that is not closed",
    text: '{\n  "listen": §"127.0.0.1:8080\n}',
    findings: [{ key: "", message: 'a `"` is missing: the text is not closed on its line' }],
  },
  {
    name: "a key without quotes",
    text: '{\n  §listen: "127.0.0.1:8080"\n}',
    findings: [
      {
        key: "",
        message: "a key in double quotes is expected here",
        hint: 'such as "listen"',
      },
    ],
  },
  {
    name: "a key that comes twice",
    text: text({ more: '"listen": "127.0.0.1:8080",\n  §"listen": "127.0.0.1:8081"' }),
    findings: [
      {
        key: "listen",
        message: 'the key "listen" is here for the second time; the first is in line 5',
        hint: "keep one of them",
      },
    ],
  },
  // Keys
  {
    name: "an unknown key",
    text: text({ more: '§"lisen": "127.0.0.1:8080"' }),
    findings: [{ key: "lisen", message: 'unknown key "lisen"', hint: 'did you mean "listen"?' }],
  },
  {
    name: "an unknown key that is near to none",
    text: text({ more: '"admin": { §"zzzzzz": 1 }' }),
    findings: [{ key: "admin.zzzzzz", message: 'unknown key "zzzzzz"', hint: "the keys here are: listen, token" }],
  },
  {
    name: "an unknown key of a webhook",
    text: webhook('§"maxbody": "1 MiB"'),
    findings: [
      { key: "webhooks.scheduling.maxbody", message: 'unknown key "maxbody"', hint: 'did you mean "maxBody"?' },
    ],
  },
  {
    name: "a missing key",
    text: text({ webhooks: '"webhooks": { §"scheduling": { "path": "/hooks" } },' }),
    findings: [{ key: "webhooks.scheduling.secrets", message: 'the key "secrets" is missing' }],
  },
  {
    name: "TLS with a half of it missing",
    text: text({ more: '§"tls": { "certificate": "cert.pem" }' }),
    findings: [{ key: "tls.key", message: 'the key "key" is missing' }],
  },
  // Values
  {
    name: "a number where text is expected",
    text: text({ more: '"listen": §8080' }),
    findings: [
      {
        key: "listen",
        message:
          'expected an address: write host and port, such as "127.0.0.1:8080", "0.0.0.0:8080" or "[::1]:8080", found a number',
      },
    ],
  },
  {
    name: "an address without a port",
    text: text({ more: '"listen": §"localhost"' }),
    findings: [
      {
        key: "listen",
        message: 'this is no address: write host and port, such as "127.0.0.1:8080", "0.0.0.0:8080" or "[::1]:8080"',
      },
    ],
  },
  {
    name: "a port that can't be",
    text: text({ more: '"listen": §"127.0.0.1:80800"' }),
    findings: [{ key: "listen", message: "a port is at most 65535" }],
  },
  {
    name: "a duration in short form",
    text: text({ more: '"journal": { "retention": §"7d" }' }),
    findings: [{ key: "journal.retention", message: 'this is no duration: did you mean "7 days"?' }],
  },
  {
    name: "a duration that is none",
    text: webhook('"commitTimeout": §"soon"'),
    findings: [
      {
        key: "webhooks.scheduling.commitTimeout",
        message: 'this is no duration: write a number and a unit, such as "30 seconds", "10 minutes" or "7 days"',
      },
    ],
  },
  {
    name: "a size in other letters",
    text: webhook('"maxBody": §"5 mb"'),
    findings: [{ key: "webhooks.scheduling.maxBody", message: 'this is no size: did you mean "5 MiB"?' }],
  },
  {
    name: "a size of nothing",
    text: text({ more: '"journal": { "maxSize": §"0 B" }' }),
    findings: [{ key: "journal.maxSize", message: "a size is at least one byte" }],
  },
  {
    name: "a word outside of its choice",
    text: webhook('"unknownTypes": §"rout"'),
    findings: [
      {
        key: "webhooks.scheduling.unknownTypes",
        message: 'expected "route", "quarantine" or "reject"',
        hint: 'did you mean "route"?',
      },
    ],
  },
  {
    name: "a status that is not 2xx",
    text: webhook('"respond": §302'),
    findings: [{ key: "webhooks.scheduling.respond", message: "expected a whole number from 200 to 299" }],
  },
  {
    name: "a header that is none",
    text: webhook('"headers": { "signature": §"x signature:" }'),
    findings: [
      {
        key: "webhooks.scheduling.headers.signature",
        message: "this is no header name: letters, digits and dashes, without spaces or a colon",
      },
    ],
  },
  {
    name: "one header for both",
    text: webhook('"headers": §{ "signature": "X-Same", "webhookId": "x-same" }'),
    findings: [
      {
        key: "webhooks.scheduling.headers",
        message: "the signature and the webhook id can't be in the same header",
      },
    ],
  },
  {
    name: "a path without its slash",
    text: text({
      webhooks: '"webhooks": { "scheduling": { "path": §"hooks", "secrets": [{ "name": "a", "value": "b" }] } },',
    }),
    findings: [{ key: "webhooks.scheduling.path", message: "a path starts with `/`" }],
  },
  ...paths.map(({ path, message }) => ({
    name: `the path ${path.slice(0, 40)}, which no request has`,
    text: text({
      webhooks: `"webhooks": { "scheduling": { "path": §"${path}", "secrets": [{ "name": "a", "value": "b" }] } },`,
    }),
    findings: [{ key: "webhooks.scheduling.path", message }],
  })),
  ...["wh_é", " wh_1", "w".repeat(257)].map((id) => ({
    name: `the id "${id.slice(0, 10)}", which no delivery can name`,
    text: webhook(`"id": ["wh_1", §"${id}"]`),
    findings: [
      {
        key: "webhooks.scheduling.id[1]",
        message: "no delivery can name this id: it comes in a header",
        hint: "visible ASCII without a blank at either end, at most 256 characters",
      },
    ],
  })),
  {
    name: "a body that is larger than all in flight may be",
    text: webhook('"maxBody": §"65 MiB"'),
    findings: [
      {
        key: "webhooks.scheduling.maxBody",
        message: "no body of this size can be received: all that are in flight have 64 MiB together",
        hint: "at most 64 MiB",
      },
    ],
  },
  {
    name: "two webhooks with the same path and the same secret",
    text: text({
      webhooks: `"webhooks": {
    "one": { "path": "/hooks", "id": "wh_1", "secrets": [{ "name": "a", "value": "\u0062" }] },
    "two": { "path": "/other", "id": "wh_2", "secrets": [{ "name": "a", "value": "b" }] },
    "three": { "path": "/hooks", "id": "wh_3", "secrets": [{ "name": "x", "value": "c" }, { "name": "y", "value": §"b" }] } },`,
    }),
    findings: [
      {
        key: "webhooks.three.secrets[1].value",
        message:
          "webhooks.one has the same path and the same secret: the id is not signed, so deliveries of one pass for those of the other",
        hint: "give each webhook the secret that the sender shows for it, or make them one with a list of ids",
      },
    ],
  },
  // Secrets and references
  {
    name: "a secret that is empty",
    text: webhook('"strictId": false', '"secrets": [{ "name": "now", "value": §"" }]'),
    findings: [{ key: "webhooks.scheduling.secrets[0].value", message: "a secret can't be empty" }],
  },
  {
    name: "a variable that is set to nothing",
    text: webhook('"strictId": false', '"secrets": [{ "name": "now", "value": §"${EMPTY}" }]'),
    findings: [{ key: "webhooks.scheduling.secrets[0].value", message: "a secret can't be empty" }],
  },
  {
    name: "no secret at all",
    text: webhook('"strictId": false', '"secrets": §[]'),
    findings: [{ key: "webhooks.scheduling.secrets", message: "without a secret no delivery can be verified" }],
  },
  {
    name: "two secrets of one name",
    text: webhook(
      '"strictId": false',
      '"secrets": [{ "name": "now", "value": "a" }, { "name": §"now", "value": "b" }]',
    ),
    findings: [
      {
        key: "webhooks.scheduling.secrets[1].name",
        message: "another secret of this webhook has the same name",
        hint: "logs tell secrets apart by their names",
      },
    ],
  },
  {
    name: "a time that is none",
    text: webhook('"strictId": false', '"secrets": [{ "name": "now", "value": "a", "expires": §"tomorrow" }]'),
    findings: [
      {
        key: "webhooks.scheduling.secrets[0].expires",
        message: 'this is no time: write it in full and in UTC, such as "2026-12-01T00:00:00Z"',
      },
    ],
  },
  {
    name: "a variable that is not set",
    text: webhook('"strictId": false', '"secrets": [{ "name": "now", "value": §"${NOT_SET}" }]'),
    findings: [
      {
        key: "webhooks.scheduling.secrets[0].value",
        message: "the variable NOT_SET is not set",
        hint: "set NOT_SET, or give it a default: ${NOT_SET:-…}",
      },
    ],
  },
  {
    name: "a reference that is not closed",
    text: text({ more: '"listen": §"${HOST:8080"' }),
    findings: [{ key: "listen", message: "a `${` has no `}`", hint: "write `$${` for the two characters themselves" }],
  },
  {
    name: "a reference without a name",
    text: text({ more: '"listen": §"${a b}:8080"' }),
    findings: [
      {
        key: "listen",
        message: "a reference is `${NAME}`, `${NAME:-default}` or `${file:PATH}`",
        hint: "a name has letters, digits and `_`",
      },
    ],
  },
  {
    name: "a file that is not there",
    text: webhook('"strictId": false', '"secrets": [{ "name": "now", "value": §"file:/run/nothing" }]'),
    findings: [
      {
        key: "webhooks.scheduling.secrets[0].value",
        message: 'the file of "file:/run/nothing" can\'t be read: there is no such file',
        hint: "paths are relative to the directory that relay is started in",
      },
    ],
  },
  {
    name: "a file within a text that is not there, and a path that does not end",
    text: webhook(
      '"strictId": false',
      `"secrets": [
    { "name": "now", "value": §"Bearer \${file:/run/nothing}" },
    { "name": "next", "value": "Bearer \${file:/run/nothing" },
    { "name": "last", "value": "\${file:\${NOT_SET}/nothing}" }]`,
    ),
    findings: [
      {
        key: "webhooks.scheduling.secrets[0].value",
        message: 'the file of "${file:/run/nothing}" can\'t be read: there is no such file',
        hint: "paths are relative to the directory that relay is started in",
      },
      {
        key: "webhooks.scheduling.secrets[1].value",
        message: "a `${` has no `}`",
        hint: "write `$${` for the two characters themselves",
      },
      {
        key: "webhooks.scheduling.secrets[2].value",
        message: "the variable NOT_SET is not set",
        hint: "set NOT_SET, or give it a default: ${NOT_SET:-…}",
      },
    ],
  },
  {
    name: "the development secret beyond loopback",
    text: text({
      webhooks:
        '"webhooks": { "scheduling": { "path": "/hooks", "secrets": [{ "name": "a", "value": §"relay-development-secret" }] } },',
      more: '"tls": { "certificate": "cert.pem", "key": "key.pem" }, "listen": "0.0.0.0:8080"',
    }),
    findings: [
      {
        key: "webhooks.scheduling.secrets[0].value",
        message: "this is the development secret, which everybody knows, and the relay listens beyond this machine",
        hint: 'put the webhook\'s own signing secret here, or let "listen" be 127.0.0.1',
      },
    ],
  },
  // Names
  {
    name: "the same path and no id, twice",
    text: text({
      webhooks: `"webhooks": {
    "one": { "path": "/hooks", "secrets": [{ "name": "a", "value": "b" }] },
    "two": { "path": §"/hooks", "secrets": [{ "name": "a", "value": "c" }] } },`,
    }),
    findings: [
      {
        key: "webhooks.two.path",
        message: "webhooks.one has the same path, and neither has an id",
        hint: "give each its own path, or its own id",
      },
    ],
  },
  {
    name: "the same path and id, twice",
    text: text({
      webhooks: `"webhooks": {
    "one": { "path": "/hooks", "id": ["wh_1", "wh_2"], "secrets": [{ "name": "a", "value": "b" }] },
    "two": { "path": "/hooks", "id": §"wh_2", "secrets": [{ "name": "a", "value": "c" }] } },`,
    }),
    findings: [
      {
        key: "webhooks.two.id",
        message: "webhooks.one has the same path and id",
        hint: "give each its own path, or its own id",
      },
    ],
  },
  {
    name: "a webhook with the name of the relay's own events",
    text: text({
      webhooks: '"webhooks": { §"relay": { "path": "/hooks", "secrets": [{ "name": "a", "value": "b" }] } },',
    }),
    findings: [
      {
        key: "webhooks.relay",
        message: 'a webhook can\'t be called "relay"',
        hint: "the relay's own events carry that name",
      },
    ],
  },
  {
    name: "a sink with a reserved name",
    text: text({
      sinks: '"sinks": { §"_quarantine": { "type": "console" } },',
      routes: '"routes": [{ "name": "everything", "match": "**", "to": ["_quarantine"] }],',
    }),
    findings: [
      {
        key: "sinks._quarantine",
        message: "a sink's name can't begin with \"_\"",
        hint: "such names are the relay's own, like _quarantine",
      },
    ],
  },
  {
    name: "a sink with a name that can't stand in an id",
    text: text({
      sinks: '"sinks": { §"a:b": { "type": "console" } },',
      routes: '"routes": [{ "name": "everything", "match": "**", "to": ["a:b"] }],',
    }),
    findings: [
      {
        key: 'sinks["a:b"]',
        message: "this is no name for a sink",
        hint: "letters, digits, `_`, `-` and `.`, at most 100",
      },
    ],
  },
  // Sinks
  {
    name: "a sink that is no object",
    text: text({ sinks: '"sinks": { "audit": §"./events.ndjson" },' }),
    findings: [
      {
        key: "sinks.audit",
        message: "a sink is an object: { … }",
        hint: 'it has at least a "type": console, file, chat, http',
      },
    ],
  },
  {
    name: "a sink without a type",
    text: text({ sinks: '"sinks": { §"audit": { "path": "./events.ndjson" } },' }),
    findings: [
      { key: "sinks.audit.type", message: 'the key "type" is missing', hint: "one of: console, file, chat, http" },
    ],
  },
  {
    name: "an unknown type of sink",
    text: text({ sinks: '"sinks": { "audit": { "type": §"flie", "path": "./events.ndjson" } },' }),
    findings: [{ key: "sinks.audit.type", message: "there is no such type of sink", hint: 'did you mean "file"?' }],
  },
  {
    name: "a type of sink that is near to none",
    text: text({ sinks: '"sinks": { "audit": { "type": §"carrier-pigeon" } },' }),
    findings: [
      {
        key: "sinks.audit.type",
        message: "there is no such type of sink",
        hint: "the types are: console, file, chat, http",
      },
    ],
  },
  {
    name: "an unknown key of a sink",
    text: sink('§"concurency": 2'),
    findings: [
      { key: "sinks.audit.concurency", message: 'unknown key "concurency"', hint: 'did you mean "concurrency"?' },
    ],
  },
  {
    name: "a key of another type of sink",
    text: sink('§"url": "https://example.com"'),
    findings: [
      {
        key: "sinks.audit.url",
        message: 'unknown key "url"',
        hint: "the keys of a file sink are: type, path, delivery, concurrency, order, key, rateLimit, backlog, digest, enrich, renamedFrom",
      },
    ],
  },
  {
    name: "a sink's own value that is wrong",
    text: text({ sinks: '"sinks": { "audit": { "type": "file", "path": §5 } },' }),
    findings: [{ key: "sinks.audit.path", message: "expected a value with a length of at least 1, found a number" }],
  },
  {
    name: "a rate that is none",
    text: sink('"rateLimit": §"100 per second"'),
    findings: [
      {
        key: "sinks.audit.rateLimit",
        message: 'this is no rate: write events per unit of time, such as "100/second" or "600/minute"',
      },
    ],
  },
  {
    name: "a backlog without its size",
    text: sink('§"backlog": { "whenFull": "deadLetter" }'),
    findings: [{ key: "sinks.audit.backlog.max", message: 'the key "max" is missing' }],
  },
  {
    name: "a wait that begins longer than it may be",
    text: sink('"delivery": { "retry": §{ "initial": "1 hour" } }'),
    findings: [
      {
        key: "sinks.audit.delivery.retry",
        message: '"initial" is longer than "max"',
        hint: "the first wait is the shortest",
      },
    ],
  },
  {
    name: "a sink renamed from one that is still there",
    text: sink('"renamedFrom": §"audit"'),
    findings: [
      {
        key: "sinks.audit.renamedFrom",
        message: 'the sink "audit" still exists, so nothing was renamed',
        hint: "take this key out, or the other sink",
      },
    ],
  },
  {
    name: "a template with an unknown placeholder",
    text: sink('"key": §"{{acount_id}}"'),
    findings: [
      {
        key: "sinks.audit.key",
        message:
          "{{acount_id}} is no placeholder: it is one of type, resource, id, account_id, webhook, received_at, created_at, count, first, last, events, or a JSON Pointer such as /data/object/id",
      },
    ],
  },
  {
    name: "a template that is not closed",
    text: sink('"key": §"{{account_id"'),
    findings: [{ key: "sinks.audit.key", message: "a {{ has no }} or the other way round" }],
  },
  {
    name: "a bad placeholder deep in a body",
    text: http('"body": { "text": ["ok {{type}}", §"{{typ}}"] }'),
    findings: [
      {
        key: "sinks.audit.body.text[1]",
        message:
          "{{typ}} is no placeholder: it is one of type, resource, id, account_id, webhook, received_at, created_at, count, first, last, events, or a JSON Pointer such as /data/object/id",
      },
    ],
  },
  {
    name: "a sink's header that is none",
    text: http('"headers": { §"x header": "y" }'),
    findings: [
      {
        key: 'sinks.audit.headers["x header"]',
        message: "this is no header name",
        hint: "letters, digits and dashes",
      },
    ],
  },
  {
    name: "two sinks that write to one file",
    text: text({
      sinks: `"sinks": { "audit": { "type": "file", "path": "./data//events.ndjson" }, "copy": { "type": "file", "path": §"data/./events.ndjson" } },`,
      routes: `"routes": [{ "name": "everything", "match": "**", "to": ["audit", "copy"] }],`,
    }),
    findings: [
      { key: "sinks.copy.path", message: "sinks.audit.path is the same file", hint: "give each a file of its own" },
    ],
  },
  {
    name: "a sink that writes into the journal",
    text: text({
      sinks: `"sinks": { "audit": { "type": "file", "path": §"./data/journal.db" } },`,
    }),
    findings: [
      { key: "sinks.audit.path", message: "journal.path is the same file", hint: "give each a file of its own" },
    ],
  },
  {
    name: "a client certificate without its key",
    text: http('§"tls": { "certificate": "cert.pem" }'),
    findings: [
      {
        key: "sinks.audit.tls.key",
        message: 'the key "key" is missing',
        hint: '"certificate" and "key" go together',
      },
    ],
  },
  // Routes
  {
    name: "a route to an unknown sink",
    text: text({ routes: '"routes": [{ "name": "everything", "match": "**", "to": ["audit", §"adit"] }],' }),
    findings: [{ key: "routes[0].to[1]", message: 'there is no sink "adit"', hint: 'did you mean "audit"?' }],
  },
  {
    name: "a route of an unknown webhook",
    text: route('"webhook": §"schedulin"'),
    findings: [
      { key: "routes[0].webhook", message: 'there is no webhook "schedulin"', hint: 'did you mean "scheduling"?' },
    ],
  },
  {
    name: "two routes of one name",
    text: text({
      routes:
        '"routes": [{ "name": "a", "match": "**", "to": "audit" }, { "name": §"a", "match": "**", "to": "audit" }],',
    }),
    findings: [
      {
        key: "routes[1].name",
        message: "another route has the same name",
        hint: "logs and `relay explain` tell routes apart by their names",
      },
    ],
  },
  {
    name: "a route that leads nowhere",
    text: text({ routes: '"routes": [{ "name": "everything", "match": "**", "to": §[] }],' }),
    findings: [{ key: "routes[0].to", message: "this list is empty, so the route does nothing" }],
  },
  {
    name: "a pattern with an empty segment",
    text: route('"except": §"appointment..created"'),
    findings: [{ key: "routes[0].except", message: "a pattern has an empty segment between its dots" }],
  },
  {
    name: "an exception whose braces stand for too much to be taken for braces",
    text: route(`"except": §"${"{a,b}".repeat(14)}"`),
    findings: [{ key: "routes[0].except", message: "the braces stand for more than 1000 patterns: write several" }],
  },
  {
    name: "a pattern that is not closed",
    text: route('"except": [§"appointment.{created,deleted"]'),
    findings: [{ key: "routes[0].except[0]", message: "a `{` has no `}` or the other way round" }],
  },
  {
    name: "a condition that is no pointer",
    text: route('"where": { §"data.object.id": "x" }'),
    findings: [
      {
        key: 'routes[0].where["data.object.id"]',
        message: "this is no JSON Pointer",
        hint: 'did you mean "/data/object/id"?',
      },
    ],
  },
  {
    name: "a condition on an object",
    text: route('"where": { "/account_id": §{ "in": ["x"] } }'),
    findings: [
      {
        key: 'routes[0].where["/account_id"]',
        message: "expected text, a number, true, false or null or a list: [ … ], found an object",
      },
    ],
  },
  // Addresses
  {
    name: "an admin API beyond loopback without a token",
    text: text({ more: '"admin": { "listen": §"0.0.0.0:9080" }' }),
    findings: [
      {
        key: "admin.listen",
        message: "the admin API listens beyond this machine and has no token",
        hint: 'set "admin.token", or listen on 127.0.0.1',
      },
    ],
  },
  {
    name: "one address for both listeners",
    text: text({ more: '"admin": { "listen": §"127.0.0.1:8080" }' }),
    findings: [
      {
        key: "admin.listen",
        message: 'the admin API and "listen" can\'t share an address',
        hint: "give one of them another port",
      },
    ],
  },
  // Digests and recoveries
  {
    name: "a digest where each event is sent by itself",
    text: sink('§"digest": {}'),
    findings: [
      {
        key: "sinks.audit.digest",
        message: "file sinks send each event by itself and can't make a digest",
        hint: 'these can: chat, http with "format": "template"',
      },
    ],
  },
  {
    name: "a digest of raw deliveries",
    text: text({ sinks: '"sinks": { "audit": { "type": "http", "url": "https://example.com", §"digest": {} } },' }),
    findings: [
      {
        key: "sinks.audit.digest",
        message: 'http sinks without "format": "template" send each event by itself and can\'t make a digest',
        hint: 'these can: chat, http with "format": "template"',
      },
    ],
  },
  {
    name: "a key by its old name and its new one",
    text: text({ more: '"delivery": { §"maxParked": 10, "maxRetrying": 20 },' }),
    findings: [
      {
        key: "delivery.maxParked",
        message: '"maxParked" is the old name of "maxRetrying", which is here as well',
        hint: "take this key out",
      },
    ],
  },
  {
    name: "a digest with an order of another kind, by what is no field, that never fills",
    text: chat(
      '§"order": "key", "digest": { "by": ["typ", "count"], "maxEvents": 20 }, "delivery": { "maxRetrying": 10 }',
    ),
    findings: [
      {
        key: "sinks.audit.order",
        message: 'a digest has its own key: "digest.by"',
        hint: "take this key out",
      },
      {
        key: "sinks.audit.digest.by[0]",
        message:
          "typ is no field: it is one of type, resource, id, account_id, webhook, received_at, created_at, or a JSON Pointer such as /data/object/id",
      },
      {
        key: "sinks.audit.digest.by[1]",
        message:
          "count is no field: it is one of type, resource, id, account_id, webhook, received_at, created_at, or a JSON Pointer such as /data/object/id",
      },
      {
        key: "sinks.audit.digest.maxEvents",
        message: 'a digest of so many never fills: "delivery.maxRetrying" is less',
        hint: "raise that, or lower this",
      },
    ],
  },
  {
    name: "a digest by nothing",
    text: chat('"digest": { "by": §[] }'),
    findings: [
      {
        key: "sinks.audit.digest.by",
        message: "a digest is made of the events that have something in common",
      },
    ],
  },
  {
    name: "a digest whose oldest events would be given up by themselves",
    text: chat('"digest": {}, "backlog": §{ "max": 10, "whenFull": "deadLetter" }'),
    findings: [
      {
        key: "sinks.audit.backlog",
        message: 'a digest is sent or given up as a whole: its backlog can only "refuse"',
      },
    ],
  },
  {
    name: "a recovery that would not find its alert",
    text: chat('§"resolve": true, "digest": { "by": ["type", "account_id"] }'),
    findings: [
      {
        key: "sinks.audit.resolve",
        message:
          'a recovery would not find its alert: the alert\'s key needs /data/object/id, which "digest.by" leaves out',
        hint: 'add it to "digest.by", or give the alert a "dedupKey" of what is there',
      },
    ],
  },
  {
    name: "a recovery in an order of another kind",
    text: chat('"resolve": true, §"key": "{{account_id}}"'),
    findings: [
      { key: "sinks.audit.key", message: '"resolve" keeps the order of its own key', hint: "take this key out" },
    ],
  },
  // Client details
  {
    name: "client details where nobody says where they are to be had",
    text: chat('§"enrich": "wait"'),
    findings: [
      {
        key: "sinks.audit.enrich",
        message: 'there is no "clients": nobody says where details are to be had',
      },
    ],
  },
  {
    name: "client details in signed bytes",
    text: text({
      sinks: '"sinks": { "audit": { "type": "file", "path": "./events.ndjson", §"enrich": "wait" } },',
      more: '"clients": { "baseUrl": "https://api.example.com" }',
    }),
    findings: [
      {
        key: "sinks.audit.enrich",
        message: "file sinks send events as they came, and can't add to them",
        hint: 'these can: chat, http with "format": "template"',
      },
    ],
  },
  {
    name: "an API that is none, asked for what is no pattern and no place",
    text: text({
      sinks: '"sinks": { "audit": { "type": "chat", "enrich": "wait" } },',
      more: '"clients": { "baseUrl": §"api.example.com", "events": { "client..*": "/a", "client.*": "data" } }',
    }),
    findings: [
      { key: "clients.baseUrl", message: "this is no http:// or https:// URL" },
      { key: 'clients.events["client..*"]', message: "a pattern has an empty segment between its dots" },
      { key: 'clients.events["client.*"]', message: "this is no JSON Pointer", hint: "such as /data/object/client_id" },
    ],
  },
  // Tests
  {
    name: "a test that names an unknown sink",
    text: text({ more: '"tests": [{ "event": "appointment.created", "to": [§"audits"] }]' }),
    findings: [{ key: "tests[0].to[0]", message: 'there is no sink "audits"', hint: 'did you mean "audit"?' }],
  },
  {
    name: "a golden file of a sink that the event does not go to",
    text: text({
      more: '"tests": [{ "event": "client.created", "to": "audit", "payloads": { §"oncall": "a.json" } }]',
    }),
    findings: [
      {
        key: "tests[0].payloads.oncall",
        message: '"to" does not name the sink "oncall", so it is sent nothing',
      },
    ],
  },
  {
    name: "a test with two objects",
    text: text({
      more: '"tests": [{ "event": "client.created", "to": "audit", §"object": {}, "sample": "client.json" }]',
    }),
    findings: [
      {
        key: "tests[0].object",
        message: 'a test has an "object" or a "sample", not both',
        hint: "the sample has its own object",
      },
    ],
  },
]
