/** The signatures of other senders, compared with their own libraries and the examples in their documentation. */
import { describe, expect, test } from "bun:test"
import { Effect } from "effect"
import type { SignatureRefusal } from "../../src/event/Signature.ts"
import * as Jmespath from "../../src/formats/jmespath/Jmespath.ts"
import {
  challengeIn,
  hubChallenge,
  isBase64Secret,
  publicKeyOf,
  read,
  received,
  type Scheme,
  type Sender,
  sampleDelivery,
  schemes,
  signedHeaders,
  verifier,
  verifierOf,
} from "../../src/routing/Foreign.ts"
import vectors from "../vectors/senders.json" with { type: "json" }

const utf8 = new TextEncoder()
const at = 1_767_225_600_000
const minute = 60_000

type SchemeName = keyof typeof schemes
const schemeNames = Object.keys(schemes) as ReadonlyArray<SchemeName>
const schemeOf = (name: string): Scheme => schemes[name as SchemeName].verify

const senderOf = (name: SchemeName): Sender<Scheme> => ({
  scheme: schemes[name].verify,
  places: schemes[name].event,
  types: [],
})

const secrets = (...values: ReadonlyArray<string>) => values.map((value, index) => ({ name: `secret ${index}`, value }))

interface Given {
  readonly scheme: Scheme
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: string
  readonly secret: string
  readonly now?: number
}

const verified = ({ scheme, headers, body, secret, now = at }: Given) => {
  const given = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as [string, string]],
  )
  return verifier(scheme, secrets(secret))(new Headers(given), utf8.encode(body), now)
}

const accepted = { ok: true, secret: "secret 0" } as const
const refused = (reason: SignatureRefusal) => ({ ok: false, reason }) as const

describe("a delivery that the sender's own library signed", () => {
  for (const { name, scheme: key, secret, body, headers, at: signedAt } of vectors) {
    const given = { scheme: schemeOf(key), secret, body, headers, now: signedAt }
    const isTimed = schemeOf(key).timestamp !== undefined

    test(`is accepted: ${name}`, () => {
      expect(verified(given)).toEqual(accepted)
    })

    test(`is refused with another secret: ${name}`, () => {
      expect(verified({ ...given, secret: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" })).toEqual(refused("mismatch"))
    })

    test(`is refused with a body that was encoded again: ${name}`, () => {
      expect(verified({ ...given, body: JSON.stringify(JSON.parse(body), null, 1) })).toEqual(refused("mismatch"))
    })

    test(`is refused without its signature: ${name}`, () => {
      const without = { ...headers, [given.scheme.header]: undefined }
      expect(verified({ ...given, headers: without })).toEqual(refused("missing"))
    })

    test(`${isTimed ? "is refused outside" : "has no"} tolerance of its time: ${name}`, () => {
      for (const offset of [-1, 1]) {
        expect(verified({ ...given, now: signedAt + offset * 5 * minute })).toEqual(accepted)
        const late = verified({ ...given, now: signedAt + offset * (5 * minute + 1) })
        expect(late).toEqual(isTimed ? refused("untimely") : accepted)
      }
    })
  }

  test("covers every scheme", () => {
    expect(new Set(vectors.map(({ scheme }) => scheme))).toEqual(new Set(schemeNames))
  })
})

describe("the example of the documentation is accepted", () => {
  test("GitHub", () => {
    const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    const headers = { "x-hub-signature-256": signature }
    const given = {
      scheme: schemes.github.verify,
      secret: "It's a Secret to Everybody",
      body: "Hello, World!",
      headers,
    }
    expect(verified(given)).toEqual(accepted)
    const upper = { "x-hub-signature-256": `sha256=${signature.slice(7).toUpperCase()}` }
    expect(verified({ ...given, headers: upper })).toEqual(accepted)
  })

  test("Standard Webhooks", () => {
    const given = {
      scheme: schemes["standard-webhooks"].verify,
      secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
      body: '{"test": 2432232314}',
      headers: {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
      },
      now: 1_614_265_330_000,
    }
    expect(verified(given)).toEqual(accepted)
    const other = { ...given.headers, "webhook-id": "msg_2" }
    expect(verified({ ...given, headers: other })).toEqual(refused("mismatch"))
  })

  test("Slack", () => {
    const body = [
      "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V",
      "channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=",
      "response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN",
      "trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
    ].join("&")
    const given = {
      scheme: schemes.slack.verify,
      secret: "8f742231b10e8888abcd99yyyzzz85a5",
      body,
      headers: {
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        "x-slack-request-timestamp": "1531420618",
      },
      now: 1_531_420_618_000,
    }
    expect(verified(given)).toEqual(accepted)
    expect(verified({ ...given, now: given.now + 5 * minute + 1 })).toEqual(refused("untimely"))
  })
})

describe("a public key", () => {
  const [signed] = vectors.filter(({ secret }) => secret.startsWith("whpk_"))
  const { secret = "", body = "", headers, at: signedAt = 0 } = signed ?? {}
  const scheme = schemes["standard-webhooks"].verify
  const given = { scheme, body, headers: headers ?? {}, secret, now: signedAt }

  test("verifies beside secrets, so that a sender may change from one to the other", () => {
    const id = headers?.["webhook-id"] ?? ""
    const own = signedHeaders(scheme, "AAAA", { id, timestamp: String(signedAt / 1_000), body: utf8.encode(body) })
    const both = `${own["webhook-signature"]} ${headers?.["webhook-signature"]}`
    const withBoth = { ...given, headers: { ...headers, "webhook-signature": both } }
    expect(verified(withBoth)).toEqual(accepted)
    expect(verified({ ...withBoth, secret: "AAAA" })).toEqual(accepted)
    const expired = verifier(scheme, [{ name: "old", value: secret, expiresAt: signedAt }])
    expect(expired(new Headers(withBoth.headers), utf8.encode(body), signedAt)).toEqual(refused("expired"))
  })

  test("does not verify an HMAC that was made with the public key as its secret", () => {
    const id = headers?.["webhook-id"] ?? ""
    const signing = { id, timestamp: String(signedAt / 1_000), body: utf8.encode(body) }
    for (const key of [secret, secret.slice("whpk_".length)]) {
      const forged = signedHeaders(scheme, key, signing)
      expect(verified({ ...given, headers: forged })).toEqual(refused("mismatch"))
      const renamed = { ...forged, "webhook-signature": (forged["webhook-signature"] ?? "").replace("v1,", "v1a,") }
      expect(verified({ ...given, headers: renamed })).toEqual(refused("malformed"))
    }
  })

  test("is compared with three signatures at most, because each costs as much as many HMACs", () => {
    const other = `v1a,${Buffer.alloc(64).toString("base64")}`
    const withOthers = (count: number) => ({
      ...headers,
      "webhook-signature": [...Array(count).fill(other), headers?.["webhook-signature"]].join(" "),
    })
    expect(verified({ ...given, headers: withOthers(2) })).toEqual(accepted)
    expect(verified({ ...given, headers: withOthers(3) })).toEqual(refused("mismatch"))
  })

  test("has 32 bytes", () => {
    const raw = (bytes: number) => `whpk_${Buffer.alloc(bytes, 1).toString("base64")}`
    expect([31, 32, 33].map((bytes) => publicKeyOf(raw(bytes)) !== undefined)).toEqual([false, true, false])
  })
})

describe("a sender that signs nothing", () => {
  const body = utf8.encode("{}")
  const verifiedBy = (
    credential: "bearer" | "basic" | "none",
    authorization: string | undefined,
    value = "user:pa ss",
  ) =>
    verifierOf({ credential }, secrets("another-secret", value))(
      new Headers(authorization === undefined ? {} : { authorization }),
      body,
      at,
    )
  const second = { ok: true, secret: "secret 1" } as const

  test("is verified by its token, whatever the case of the scheme", () => {
    for (const scheme of ["Bearer", "bearer", "BEARER"]) {
      expect(verifiedBy("bearer", `${scheme} a-token`, "a-token")).toEqual(second)
    }
    expect(verifiedBy("bearer", "Bearer a-tokem", "a-token")).toEqual(refused("mismatch"))
    expect(verifiedBy("bearer", "Bearer a-token2", "a-token")).toEqual(refused("mismatch"))
    expect(verifiedBy("bearer", "Basic a-token", "a-token")).toEqual(refused("malformed"))
    expect(verifiedBy("bearer", "Bearer a token", "a token")).toEqual(refused("malformed"))
    expect(verifiedBy("bearer", undefined)).toEqual(refused("missing"))
  })

  test("is verified by its user and password", () => {
    const basic = (text: string) => `Basic ${Buffer.from(text).toString("base64")}`
    expect(verifiedBy("basic", basic("user:pa ss"))).toEqual(second)
    expect(verifiedBy("basic", basic("user:Zoë"), "user:Zoë")).toEqual(second)
    for (const wrong of ["user:pa sS", "user", "user:", ":pa ss", "User:pa ss"]) {
      expect(verifiedBy("basic", basic(wrong))).toEqual(refused("mismatch"))
    }
    expect(verifiedBy("basic", "Basic")).toEqual(refused("malformed"))
  })

  test("is refused with an expired secret", () => {
    const verify = verifierOf({ credential: "bearer" }, [{ name: "old", value: "a-token", expiresAt: at }])
    expect(verify(new Headers({ authorization: "Bearer a-token" }), body, at)).toEqual(refused("expired"))
    expect(verify(new Headers({ authorization: "Bearer a-token" }), body, at - 1)).toEqual({ ok: true, secret: "old" })
  })

  test("has its secret stored nowhere", () => {
    const sender: Sender = {
      scheme: { credential: "bearer" },
      places: { type: ["authorization", "x-kind"] },
      types: [],
    }
    const headers = new Headers({ authorization: "Bearer a-token", "x-kind": "made" })
    expect(received(sender, headers)).toEqual({ createdAt: "", headers: { "x-kind": "made" } })
  })
})

describe("a challenge", () => {
  const ask = (body: unknown, name: SchemeName = "slack") =>
    challengeIn(senderOf(name), utf8.encode(JSON.stringify(body)))
  const asked = { token: "t", challenge: '3e"<script>', type: "url_verification" }

  test("of Slack is the text of its field", () => {
    expect(ask(asked)).toBe(asked.challenge)
    expect(ask({ ...asked, challenge: "c".repeat(512) })).toBe("c".repeat(512))
  })

  test("is nothing else: an event, another sender's, a long one, or one that is not text", () => {
    expect(ask({ ...asked, type: "event_callback" })).toBeUndefined()
    expect(ask({ type: "event_callback", event: asked })).toBeUndefined()
    expect(ask(asked, "github")).toBeUndefined()
    expect(ask({ ...asked, challenge: "c".repeat(513) })).toBeUndefined()
    expect(ask({ ...asked, challenge: 1 })).toBeUndefined()
    expect(ask({ ...asked, padding: "p".repeat(4_096) })).toBeUndefined()
    expect(challengeIn(senderOf("slack"), utf8.encode("url_verification"))).toBeUndefined()
  })

  test("of a GET is the value of hub.challenge, if a page can't be made of it", () => {
    const query = (more: Record<string, string>) =>
      `http://relay.example/hooks?${new URLSearchParams({ "hub.mode": "subscribe", "hub.verify_token": "t&=", ...more })}`
    expect(hubChallenge(query({ "hub.challenge": "1158201444" }))).toEqual({ challenge: "1158201444", token: "t&=" })
    for (const wrong of ["", "<script>", "a b", "é", "c".repeat(513)]) {
      expect(hubChallenge(query({ "hub.challenge": wrong }))).toBeUndefined()
    }
    expect(hubChallenge(query({ "hub.challenge": "1", "hub.mode": "unsubscribe" }))).toBeUndefined()
    expect(hubChallenge("http://relay.example/hooks")).toBeUndefined()
  })
})

describe("a header with several signatures", () => {
  const body = '{"type":"a.b"}'
  const sign = (scheme: Scheme, secret: string) =>
    signedHeaders(scheme, secret, { id: "msg_1", timestamp: String(at / 1_000), body: utf8.encode(body) })

  test("is accepted if one matches, and other versions are ignored", () => {
    const { scheme } = senderOf("stripe")
    const [time, signature] = (sign(scheme, "b")[scheme.header] ?? "").split(",")
    const old = sign(scheme, "a")[scheme.header]?.split(",")[1]
    const header = `${time},v0=${"0".repeat(64)},${old}, ${signature}`
    expect(verified({ scheme, body, secret: "b", headers: { [scheme.header]: header } })).toEqual(accepted)
    expect(verified({ scheme, body, secret: "c", headers: { [scheme.header]: header } })).toEqual(refused("mismatch"))
  })

  test("is compared up to the tenth signature", () => {
    const { scheme } = senderOf("stripe")
    const [time, signature] = (sign(scheme, "b")[scheme.header] ?? "").split(",")
    const others = (count: number) => Array.from({ length: count }, () => `v1=${"0".repeat(64)}`).join(",")
    const withOthers = (count: number) => ({ [scheme.header]: `${time},${others(count)},${signature}` })
    expect(verified({ scheme, body, secret: "b", headers: withOthers(9) })).toEqual(accepted)
    expect(verified({ scheme, body, secret: "b", headers: withOthers(10) })).toEqual(refused("mismatch"))
  })

  test("is malformed without a signature, a time or a whole digest", () => {
    const { scheme } = senderOf("stripe")
    const [time, signature = ""] = (sign(scheme, "b")[scheme.header] ?? "").split(",")
    for (const header of ["none", `${time}`, signature, `t=,${signature}`, `t=-1,${signature}`, `${time},v1=`]) {
      expect(verified({ scheme, body, secret: "b", headers: { [scheme.header]: header } })).toEqual(
        refused("malformed"),
      )
    }
    const { scheme: github } = senderOf("github")
    for (const header of [`bogus=${"0".repeat(64)}`, `sha1=${"0".repeat(40)}`, "sha256", `sha256=${"g".repeat(64)}`]) {
      const given = { scheme: github, body, secret: "b", headers: { [github.header]: header } }
      expect(verified(given)).toEqual(refused("malformed"))
    }
    for (const cut of [signature.slice(0, -2), `${signature}0`]) {
      const headers = { [scheme.header]: `${time},${cut}` }
      expect(verified({ scheme, body, secret: "b", headers })).toEqual(refused("malformed"))
    }
  })
})

describe("secrets", () => {
  const { scheme } = senderOf("github")
  const body = utf8.encode("{}")
  const headers = (secret: string) => new Headers(signedHeaders(scheme, secret, { id: "", timestamp: "", body }))

  test("verify one by one, until they expire", () => {
    const both = verifier(scheme, [
      { name: "old", value: "a", expiresAt: at },
      { name: "new", value: "b" },
    ])
    expect(both(headers("a"), body, at - 1)).toEqual({ ok: true, secret: "old" })
    expect(both(headers("b"), body, at)).toEqual({ ok: true, secret: "new" })
    expect(both(headers("a"), body, at)).toEqual({ ok: false, reason: "expired" })
    expect(both(headers("c"), body, at)).toEqual({ ok: false, reason: "mismatch" })
  })

  test("of schemes with base64 may begin with whsec_", () => {
    expect(["whsec_MfKQ9r8GKYqrTwjUPD8I", "MfKQ9r8GKYqrTwjUPD8I"].map(isBase64Secret)).toEqual([true, true])
    const wrong = ["", "whsec_", "whsec_!!!!", "not base64!", "my-secret", "v1,whsec_MfKQ9r8GKYqrTwjUPD8I"]
    expect(wrong.filter(isBase64Secret)).toEqual([])
  })
})

test("a scheme that a config writes out signs with its algorithm, encoding, prefix and template", () => {
  const body = utf8.encode('{"a":1}')
  for (const algorithm of ["sha1", "sha256", "sha512"] as const) {
    for (const encoding of ["hex", "base64"] as const) {
      const scheme: Scheme = {
        header: "X-Signature",
        algorithm,
        encoding,
        prefix: "v0=",
        signed: "v0:{{timestamp}}:{{id}}:{{body}}",
        timestamp: "X-Time",
        id: "X-Id",
        tolerance: minute,
        secret: "text",
      }
      const headers = signedHeaders(scheme, "s", { id: "1", timestamp: String(at / 1_000), body })
      const key = new Bun.CryptoHasher(algorithm, "s")
      const digest = key
        .update(`v0:${at / 1_000}:1:`)
        .update(body)
        .digest(encoding)
      expect(headers).toEqual({ "X-Signature": `v0=${digest}`, "X-Time": String(at / 1_000), "X-Id": "1" })
      const verify = verifier(scheme, secrets("s"))
      expect(verify(new Headers(headers), body, at)).toEqual(accepted)
      expect(verify(new Headers(headers), body, at + minute + 1)).toEqual({ ok: false, reason: "untimely" })
    }
  }
})

describe("the facts of a delivery", () => {
  const readOf = (sender: Sender, headers: Readonly<Record<string, string>>, body: string, path = "/hooks") => {
    const foreign = received(sender, new Headers(headers))
    const event = { webhook: "w", webhookId: "", signature: "", secret: "", receivedAt: at, body: utf8.encode(body) }
    return read(sender, path, { ...event, foreign })
  }

  test("are in GitHub's headers and body", () => {
    const headers = {
      "x-github-delivery": "72d3162e",
      "x-github-event": "issues",
      "x-hub-signature-256": "s",
      other: "o",
    }
    const body = '{"action":"opened","repository":{"full_name":"acme/shop"}}'
    expect(readOf(senderOf("github"), headers, body)).toMatchObject({
      id: "72d3162e",
      type: "issues.opened",
      accountId: "acme/shop",
      foreign: {
        createdAt: new Date(at).toISOString(),
        headers: { "x-github-delivery": "72d3162e", "x-github-event": "issues", "x-hub-signature-256": "s" },
      },
    })
    expect(readOf(senderOf("github"), { ...headers, "x-github-event": "push" }, "{}")).toMatchObject({ type: "push" })
  })

  test("are in Stripe's body", () => {
    const body = '{"id":"evt_1","type":"invoice.paid","account":"acct_9","created":1700000000}'
    expect(readOf(senderOf("stripe"), { "stripe-signature": "t=1,v1=a" }, body)).toMatchObject({
      id: "evt_1",
      type: "invoice.paid",
      accountId: "acct_9",
      foreign: { createdAt: "2023-11-14T22:13:20.000Z", headers: { "stripe-signature": "t=1,v1=a" } },
    })
  })

  test("of Shopify have a type with dots", () => {
    const headers = { "x-shopify-topic": "orders/create", "x-shopify-triggered-at": "2026-01-01T00:00:00.5Z" }
    expect(readOf(senderOf("shopify"), headers, "{}")).toMatchObject({
      type: "orders.create",
      foreign: { createdAt: "2026-01-01T00:00:00.500Z" },
    })
  })

  test("without an id have a hash of path, timestamp and body", () => {
    const sender: Sender<Scheme> = {
      scheme: { ...schemes["standard-webhooks"].verify },
      places: { type: ["/type"] },
      types: [],
    }
    const idOf = (time: string, body: string, path?: string) =>
      readOf(sender, { "webhook-timestamp": time }, body, path).id
    const ids = [idOf("1", "{}"), idOf("2", "{}"), idOf("1", "[]"), idOf("1", "{}", "/other")]
    expect(new Set(ids).size).toBe(4)
    expect(idOf("1", "{}")).toBe(ids[0] ?? "")
    expect(ids[0]).toMatch(/^sha256:[0-9a-f]{64}$/)
  })

  test("are found by expressions over the body", async () => {
    await Effect.runPromise(Jmespath.load)
    const sender: Sender = {
      scheme: { credential: "none" },
      places: {
        id: { jmespath: "messages[0].id" },
        type: ["/kind", { jmespath: "messages[?urgent].level | [0]" }],
        account: { jmespath: "length(messages)" },
        time: { jmespath: "sent" },
      },
      types: [],
    }
    const body = '{"kind":"alarm","messages":[{"id":12345678901234567890,"urgent":true,"level":"red"}],"sent":60}'
    expect(readOf(sender, {}, body)).toMatchObject({
      id: "12345678901234567890",
      type: "alarm.red",
      accountId: "1",
      foreign: { createdAt: "1970-01-01T00:01:00.000Z" },
    })
    expect(() => readOf(sender, {}, "{}")).toThrow("length")
    expect(readOf(sender, {}, "no JSON")).toMatchObject({ type: "" })
  })

  test("in the wrong form count as missing, and the time is that of receipt", () => {
    const body = '{"id":{"a":1},"type":["a"],"account":12345678901234567890,"created":"soon"}'
    const { id, type, accountId, foreign } = readOf(senderOf("stripe"), {}, body)
    expect([type, accountId, foreign.createdAt]).toEqual(["", "12345678901234567890", new Date(at).toISOString()])
    expect(id).toStartWith("sha256:")
  })
})

test("a sample delivery is verified and read as its sender's", () => {
  for (const name of schemeNames) {
    const sender = senderOf(name)
    const { headers, body } = sampleDelivery(sender, "AAAA", { id: "evt_1", type: "a.b.c", account: "acct_1", now: at })
    const given = new Headers(headers)
    expect(verifier(sender.scheme, secrets("AAAA"))(given, body, at)).toEqual(accepted)
    const event = { webhook: "w", webhookId: "", signature: "", secret: "", receivedAt: 0, body }
    expect(read(sender, "/", { ...event, foreign: received(sender, given) })).toMatchObject({
      id: sender.places.id === undefined ? expect.stringMatching(/^sha256:/) : "evt_1",
      type: "a.b.c",
      accountId: sender.places.account === undefined ? "" : "acct_1",
    })
  }
})
