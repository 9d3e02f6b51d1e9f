/** What an HTTP sink may have: access tokens, signatures, certificates. */
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
  mistakes: [
    { name: "a client without its secret", config: oauth('"scope": "events"').replace('"oauth"', '§"oauth"') },
    {
      name: "a token endpoint without its scheme",
      config: oauth(clientSecret).replace('"https://login.example.com/token"', '§"login.example.com"'),
    },
    {
      name: "a token endpoint with a placeholder",
      config: oauth(clientSecret).replace(
        '"https://login.example.com/token"',
        '§"https://login.example.com/{{account_id}}"',
      ),
    },
    { name: "scopes as a list", config: oauth(`${clientSecret}, "scope": §["events"]`) },
    { name: "a client that says who it is in another way", config: oauth(`${clientSecret}, "clientAuth": §"basic"`) },
    {
      name: "an access token and a header of one's own",
      config: oauth(clientSecret).replace('"oauth"', '"headers": { "authorization": §"Bearer x" }, "oauth"'),
    },
    { name: "a signature by its secret alone", config: sink(`"sign": §"${canary}"`) },
    { name: "a scheme of signatures that there is not", config: sign(`"scheme": §"hmac", "secret": "${canary}"`) },
    { name: "a scheme of signatures in other letters", config: sign(`"scheme": §"GitHub", "secret": "${canary}"`) },
    {
      name: "a secret of Standard Webhooks that is none",
      config: sign(`"scheme": "standardWebhooks", "secret": §"${canary}"`),
    },
    {
      name: "two secrets in a scheme that has room for one",
      config: sign(`"scheme": "github", "secret": §["one", "two"]`),
    },
    { name: "no secrets", config: sign('"scheme": "stripe", "secret": §[]') },
    { name: "a batch of a format that sends one event", config: sink('"batch": §{ "maxEvents": 50 }') },
    {
      name: "a batch whose address is one event's",
      config: sink('"format": "json"').replace(/"url": "[^"]*"/, '"url": §"https://example.com/{{id}}"'),
    },
    {
      name: "a batch with a header of one event's",
      config: sink('"format": "ndjson", "headers": { "x-account": §"{{account_id}}" }'),
    },
    { name: "answers kept, in words", config: sink('"keepAnswers": §"no"') },
    { name: "a certificate and a key that don't belong together", config: tls('"cert.pem"', '§"another.pem"'), files },
    { name: "a certificate and a key that are swapped", config: tls('§"key.pem"', '"cert.pem"'), files },
    { name: "a certificate that is no PEM", config: tls('§"cert.der"', '"key.pem"'), files },
    {
      name: "a certificate that is a directory",
      config: tls('§"certs"', '"key.pem"'),
      files: { ...files, certs: null },
    },
    {
      name: "a certificate's text in place of its file",
      config: tls('§"MIIB"', '"key.pem"'),
      files,
      command: ["validate"],
    },
    {
      name: "a sink's authorities that are a key",
      config: sink('"tls": { "ca": §"key.pem" }'),
      files,
      command: ["validate"],
    },
  ],
}
