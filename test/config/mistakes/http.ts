/** Mistakes in an HTTP sink's access tokens, signatures and certificates. */
import { generateKeyPairSync } from "node:crypto"
import { readFileSync } from "node:fs"
import { canary } from "../../cli/configs.ts"
import { config, http as sink, type Theme } from "./Mistake.ts"

const pem = (name: string): string => readFileSync(new URL(`../../e2e/http/tls/${name}`, import.meta.url), "utf8")
const another = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ type: "pkcs8", format: "pem" })

/** The certificate is valid for a hundred years. */
const files = {
  "cert.pem": pem("localhost.pem"),
  "key.pem": pem("localhost.key.pem"),
  "another.pem": String(another),
  "cert.der": new Uint8Array([0x30, 0x82, 0x01, 0x0a]),
}

const oauth = (inside: string): string =>
  sink(`"oauth": { "tokenUrl": "https://login.example.com/token", "clientId": "relay", ${inside} }`)
const clientSecret = `"clientSecret": "${canary}"`
const sign = (inside: string): string => sink(`"sign": { ${inside} }`)
const tls = (certificate: string, key: string): string =>
  config({ tls: `{ "certificate": ${certificate}, "key": ${key} }` })

export const http: Theme = {
  title: "Access tokens, signatures, certificates",
  mistakes: {
    "a client without its secret": oauth('"scope": "events"').replace('"oauth"', '§"oauth"'),
    "a token endpoint without its scheme": oauth(clientSecret).replace(
      '"https://login.example.com/token"',
      '§"login.example.com"',
    ),
    "a token endpoint with a placeholder": oauth(clientSecret).replace(
      '"https://login.example.com/token"',
      '§"https://login.example.com/{{account_id}}"',
    ),
    "scopes as a list": oauth(`${clientSecret}, "scope": §["events"]`),
    "a client that says who it is in another way": oauth(`${clientSecret}, "clientAuth": §"basic"`),
    "an access token and a header of one's own": oauth(clientSecret).replace(
      '"oauth"',
      '"headers": { "authorization": §"Bearer x" }, "oauth"',
    ),
    "a signature by its secret alone": sink(`"sign": §"${canary}"`),
    "a scheme of signatures that there is not": sign(`"scheme": §"hmac", "secret": "${canary}"`),
    "a scheme of signatures in other letters": sign(`"scheme": §"GitHub", "secret": "${canary}"`),
    "a secret of Standard Webhooks that is none": sign(`"scheme": "standardWebhooks", "secret": §"${canary}"`),
    "two secrets in a scheme that has room for one": sign(`"scheme": "github", "secret": §["one", "two"]`),
    "no secrets": sign('"scheme": "stripe", "secret": §[]'),
    "a batch of a format that sends one event": sink('"batch": §{ "maxEvents": 50 }'),
    "a batch whose address is one event's": sink('"format": "json"').replace(
      /"url": "[^"]*"/,
      '"url": §"https://example.com/{{id}}"',
    ),
    "a batch with an expression as a header": sink(
      '"format": "ndjson", "headers": { "x-account": §{ "jmespath": "id" } }',
    ),
    "a batch with a header of one event's": sink('"format": "ndjson", "headers": { "x-account": §"{{account_id}}" }'),
    "answers kept, in words": sink('"keepAnswers": §"no"'),
    "a certificate and a key that don't belong together": { config: tls('"cert.pem"', '§"another.pem"'), files },
    "a certificate and a key that are swapped": { config: tls('§"key.pem"', '"cert.pem"'), files },
    "a certificate that is no PEM": { config: tls('§"cert.der"', '"key.pem"'), files },
    "a certificate that is a directory": {
      config: tls('§"certs"', '"key.pem"'),
      files: { ...files, certs: null },
    },
    "a certificate's text in place of its file": {
      config: tls('§"MIIB"', '"key.pem"'),
      files,
      command: ["validate"],
    },
    "a sink's authorities that are a key": {
      config: sink('"tls": { "ca": §"key.pem" }'),
      files,
      command: ["validate"],
    },
  },
}
