#!/bin/sh
# Makes senders.json with the senders' own libraries, in the versions below, and Shopify's, Slack's and those with Ed25519 by openssl.
# Run it here: ./make-senders.sh > senders.json && bunx biome format --write senders.json
# It also has the libraries verify deliveries that `Foreign.ts` signs, and fails if one of them refuses.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
echo '{ "private": true }' > package.json
bun add --exact stripe@23.1.0 @octokit/webhooks-methods@6.0.0 standardwebhooks@1.1.1 svix@2.5.0 1>&2
cat > make.ts <<END
import { sign, verify } from "@octokit/webhooks-methods"
import { Webhook as Standard } from "standardwebhooks"
import Stripe from "stripe"
import { Webhook as Svix } from "svix"
import { schemes, sampleDelivery, type Sender } from "$here/../../src/routing/Foreign.ts"

const stripe = new Stripe("sk_test_none")
const at = 1_767_225_600
const bodies = {
  plain: '{"id":"evt_1","type":"invoice.paid","created":1767225600,"action":"opened"}',
  spaced: ' {\n  "type" : "invoice.paid",\t"price": 1.10, "name": "Zo\u00eb \u{1f4c5}"\r\n}\n',
}
const standard = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
const openssl = (secret: string, body: string, encoding: "base64" | "hex" = "base64"): string =>
  Bun.spawnSync(["openssl", "dgst", "-sha256", "-hmac", secret, "-binary"], { stdin: Buffer.from(body) })
    .stdout.toString(encoding)

// The first key of RFC 8032, section 7.1.
const seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
const publicKey = Buffer.from("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "hex")
await Bun.write("key.der", Buffer.from(\`302e020100300506032b657004220420\${seed}\`, "hex"))
const ed25519 = async (text: string): Promise<string> => {
  await Bun.write("text", text)
  const args = ["pkeyutl", "-sign", "-rawin", "-keyform", "DER", "-inkey", "key.der", "-in", "text"]
  return Bun.spawnSync(["openssl", ...args]).stdout.toString("base64")
}

const made = []
for (const [name, body] of Object.entries(bodies)) {
  const add = (scheme: string, secret: string, headers: object) =>
    made.push({ name: \`\${scheme}, \${name}\`, scheme, secret, at: at * 1_000, body, headers })
  add("github", "It's a Secret to Everybody", {
    "x-hub-signature-256": await sign("It's a Secret to Everybody", body),
    "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
    "x-github-event": "issues",
  })
  add("meta", "an-app-secret", { "x-hub-signature-256": await sign("an-app-secret", body) })
  const signing = "8f742231b10e8888abcd99yyyzzz85a5"
  add("slack", signing, {
    "x-slack-signature": \`v0=\${openssl(signing, \`v0:\${at}:\${body}\`, "hex")}\`,
    "x-slack-request-timestamp": String(at),
  })
  const secret = "whsec_test_secret"
  add("stripe", secret, {
    "stripe-signature": await stripe.webhooks.generateTestHeaderStringAsync({ payload: body, secret, timestamp: at }),
  })
  const ids = { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", date: new Date(at * 1_000) }
  for (const [scheme, prefix, library] of [
    ["standard-webhooks", "webhook", new Standard(standard)],
    ["svix", "svix", new Svix(standard)],
  ] as const) {
    add(scheme, standard, {
      [\`\${prefix}-signature\`]: library.sign(ids.id, ids.date, body),
      [\`\${prefix}-id\`]: ids.id,
      [\`\${prefix}-timestamp\`]: String(at),
    })
  }
  const signature = await ed25519(\`\${ids.id}.\${at}.\${body}\`)
  made.push({
    name: \`standard-webhooks with Ed25519, \${name}\`,
    scheme: "standard-webhooks",
    secret: \`whpk_\${publicKey.toString("base64")}\`,
    at: at * 1_000,
    body,
    headers: {
      "webhook-signature": \`v1a,\${signature}\`,
      "webhook-id": ids.id,
      "webhook-timestamp": String(at),
    },
  })
  add("shopify", "hush", {
    "x-shopify-hmac-sha256": openssl("hush", body),
    "x-shopify-topic": "orders/create",
    "x-shopify-event-id": "98880550-7158-44d4-b7cd-2c97c8a091b5",
  })
}

const ours = (scheme: keyof typeof schemes, secret: string) => {
  const { verify: row, event } = schemes[scheme]
  const sender: Sender = { scheme: row, places: event, types: [] }
  const { headers, body } = sampleDelivery(sender, secret, { id: "evt_1", type: "a.b", now: Date.now() })
  return { headers, text: new TextDecoder().decode(body) }
}
const github = ours("github", "s")
if (!(await verify("s", github.text, github.headers["x-hub-signature-256"] ?? ""))) throw new Error("github")
const paid = ours("stripe", "whsec_s")
await stripe.webhooks.constructEventAsync(paid.text, paid.headers["stripe-signature"] ?? "", "whsec_s")
const one = ours("standard-webhooks", standard)
new Standard(standard).verify(one.text, one.headers)
const two = ours("svix", standard)
new Svix(standard).verify(two.text, two.headers)
const chat = ours("slack", "s")
const signedAt = chat.headers["x-slack-request-timestamp"] ?? ""
const written = \`v0=\${openssl("s", \`v0:\${signedAt}:\${chat.text}\`, "hex")}\`
if (written !== chat.headers["x-slack-signature"]) throw new Error("slack")
const shop = ours("shopify", "s")
if (openssl("s", shop.text) !== shop.headers["x-shopify-hmac-sha256"]) throw new Error("shopify")

console.log(JSON.stringify(made, null, 2))
END
ln -s "$here/../../node_modules/effect" node_modules/effect
bun make.ts
