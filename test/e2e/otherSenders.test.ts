/**
 * Deliveries of other senders through a whole relay. `relay trigger` signs them, and they pass routes, templates and
 * sinks.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { randomBytes } from "node:crypto"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { Event } from "../../src/event/Event.ts"
import { type SenderName, sampleDelivery, senders } from "../../src/routing/Foreign.ts"
import { until, type Written, writeConfig } from "../lib/kit.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { makePostgres, type Postgres, reasonToSkip } from "../parts/Postgres.ts"

const cwd = temporaryDirectory("senders-")
const secrets = (value: string) => [{ name: "now", value }]

const webhooks = {
  scheduling: { path: "/hooks/scheduling", secrets: secrets("a-secret-of-this-test") },
  github: {
    path: "/hooks/github",
    secrets: secrets("another-secret-of-this-test"),
    verify: "github",
    event: { types: ["push", "issues.opened"] },
  },
  stripe: {
    path: "/hooks/stripe",
    secrets: secrets("whsec_of_this_test_too"),
    verify: "stripe",
    event: { types: ["invoice.paid", "invoice.voided"] },
  },
  other: {
    path: "/hooks/other",
    secrets: secrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    verify: "standard-webhooks",
  },
  own: {
    path: "/hooks/own",
    secrets: secrets("the-secret-of-our-own-scheme"),
    verify: {
      header: "X-Signature",
      prefix: "v0=",
      signed: "v0:{{timestamp}}:{{body}}",
      timestamp: "X-Request-Timestamp",
    },
    event: { id: "X-Event-Id", type: "/event/type", account: "/team/id" },
  },
  slack: { path: "/hooks/slack", secrets: secrets("the-signing-secret-of-slack"), verify: "slack" },
  meta: { path: "/hooks/meta", secrets: secrets("the-app-secret-of-meta"), verify: "meta", verifyToken: "a-token" },
  bearer: {
    path: "/hooks/bearer",
    secrets: secrets("a-token-that-nobody-signs-with"),
    verify: "bearer",
    event: { type: "/kind", id: "/id" },
  },
  basic: {
    path: "/hooks/basic",
    secrets: secrets("user:a password of this test"),
    verify: "basic",
    event: { type: "/kind", id: "/id" },
  },
  none: { path: "/hooks/none", secrets: [], verify: "none", event: { type: "X-Kind", id: "X-Id" } },
}

/** Writes a config with all senders. The names of its files begin with `name`. */
const write = (name: string, more: object = {}): Promise<Written> => {
  const file = (path: string) => ({ type: "file", path: `${name}-${path}.ndjson` })
  const sinks = { all: file("all"), issues: file("issues"), paid: file("paid") }
  const routes = [
    { name: "everything", match: "**", to: "all" },
    { name: "issues", match: "issues.*", webhook: "github", to: "issues" },
    { name: "paid", match: "invoice.paid", where: { "/data/object/account": "acct_9" }, to: "paid" },
  ]
  return writeConfig(cwd, sinks, { webhooks, routes, behindProxy: true, ...more }, `${name}.json`)
}

const lines = (file: string): ReadonlyArray<string> =>
  existsSync(join(cwd, file)) ? readFileSync(join(cwd, file), "utf8").split("\n").slice(0, -1) : []

const events = async (config: string): Promise<ReadonlyArray<Event>> => {
  const { stdout } = await relay(["events", "--json", "-c", config], { cwd })
  return (JSON.parse(stdout) as { readonly events: ReadonlyArray<Event> }).events
}
const factsIn = async (config: string) =>
  (await events(config)).map(({ webhook, type, accountId }) => [webhook, type, accountId]).toSorted()

interface Sample {
  readonly id: string
  readonly type: string
  readonly account?: string
}

/** Sends a sample like a sender in `senders`, to the webhook of the same name. Returns the status. */
const send = async ({ ports }: Written, name: SenderName & keyof typeof webhooks, sample: Sample): Promise<number> => {
  const { verify: scheme, event } = senders[name]
  const webhook: { readonly path: string; readonly secrets: ReadonlyArray<{ readonly value: string }> } = webhooks[name]
  const secret = webhook.secrets[0]?.value ?? ""
  const sender = { scheme, places: event, types: [] }
  const { headers, body } = sampleDelivery(sender, secret, { ...sample, now: Date.now() })
  const all = { "content-type": "application/json", ...headers }
  const url = `http://127.0.0.1:${ports[0]}${webhook.path}`
  return (await fetch(url, { method: "POST", body: Buffer.from(body), headers: all })).status
}

describe("a relay with webhooks of several senders", () => {
  test("accepts each one's deliveries, routes them by type and webhook, and answers challenges", async () => {
    const written = await write("senders")
    const running = await startRelay(written.config, { cwd })
    const triggered = relay(["trigger", "issues.opened", "--webhook", "github", "-c", written.config], { cwd })
    expect(await send(written, "stripe", { id: "evt_1", type: "invoice.paid", account: "acct_9" })).toBe(202)
    expect(await send(written, "stripe", { id: "evt_2", type: "invoice.paid", account: "acct_8" })).toBe(202)
    expect(await send(written, "slack", { id: "evt_1", type: "event_callback.message", account: "T1" })).toBe(202)
    const query = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=a-token"
    const challenged = await fetch(`http://127.0.0.1:${written.ports[0]}/hooks/meta?${query}`)
    expect([challenged.status, await challenged.text()]).toEqual([200, "1158201444"])
    expect((await triggered).code).toBe(0)
    await until(() => lines("senders-all.ndjson").length >= 4 && lines("senders-paid.ndjson").length >= 1)
    await until(() => lines("senders-issues.ndjson").length >= 1)
    expect(JSON.parse(lines("senders-issues.ndjson")[0] ?? "")).toMatchObject({ sample: true, action: "opened" })
    expect(JSON.parse(lines("senders-paid.ndjson")[0] ?? "")).toMatchObject({ id: "evt_1", account: "acct_9" })
    expect(await factsIn(written.config)).toEqual([
      ["github", "issues.opened", ""],
      ["slack", "event_callback.message", "T1"],
      ["stripe", "invoice.paid", "acct_8"],
      ["stripe", "invoice.paid", "acct_9"],
    ])
    expect(await running.kill("SIGTERM")).toBe(0)
  })

  test("explains a type of another sender without dots", async () => {
    const { stdout, code } = await relay(["explain", "push", "--webhook", "github", "-c", "senders.json"], { cwd })
    expect(code).toBe(0)
    expect(stdout).toContain("push → all")
  })
})

const asked = process.env.RELAY_PARTS === "1"
const lacking = asked
  ? reasonToSkip()
  : "it starts PostgreSQL and a process for each sender, RELAY_PARTS=1 bun test runs it"

suiteUnless(lacking, "a relay with all senders", () => {
  let postgres: Postgres
  beforeAll(async () => {
    postgres = await makePostgres()
  }, 60_000)
  afterAll(() => postgres.stop(), 60_000)

  const journals = {
    "on a file": (name: string) => ({ path: `${name}.db`, searchIds: ["/account"] }),
    "on PostgreSQL": () => ({ type: "postgres", name: "only", url: postgres.url, searchIds: ["/account"] }),
  }
  for (const [where, journal] of Object.entries(journals)) {
    const title = where.replaceAll(" ", "-")
    test(`accepts what trigger sends for each, unless its body was changed: ${where}`, async () => {
      const name = title
      const written = await write(name, { journal: journal(name) })
      const running = await startRelay(written.config, { cwd })
      const trigger = (...args: ReadonlyArray<string>) => relay(["trigger", ...args, "-c", written.config], { cwd })
      const sent = await Promise.all([
        trigger("appointment.created", "--webhook", "scheduling"),
        trigger("issues.opened", "--webhook", "github", "--account", "acme/shop"),
        trigger("invoice.paid", "--webhook", "stripe", "--account", "acct_9"),
        trigger("invoice.paid", "--webhook", "stripe", "--account", "acct_8"),
        trigger("invoice.paid", "--webhook", "stripe", "--tamper"),
        trigger("user.created", "--webhook", "other"),
        trigger("message.sent", "--webhook", "own", "--account", "T1"),
        trigger("event_callback.message", "--webhook", "slack", "--tamper"),
        trigger("event_callback.message", "--webhook", "slack", "--account", "T1"),
        trigger("page.feed", "--webhook", "meta", "--account", "1"),
        trigger("paid", "--webhook", "bearer"),
        trigger("paid", "--webhook", "basic"),
        trigger("paid", "--webhook", "none"),
      ])
      expect(sent.map(({ code }) => code)).toEqual(sent.map(() => 0))
      const all = [
        ["basic", "paid", ""],
        ["bearer", "paid", ""],
        ["github", "issues.opened", "acme/shop"],
        ["meta", "page.feed", "1"],
        ["none", "paid", ""],
        ["other", "user.created", ""],
        ["own", "message.sent", "T1"],
        ["scheduling", "appointment.created", "acct_sample"],
        ["slack", "event_callback.message", "T1"],
        ["stripe", "invoice.paid", "acct_8"],
        ["stripe", "invoice.paid", "acct_9"],
      ]
      expect(await factsIn(written.config)).toEqual(all)
      const found = await relay(["events", "--json", "--object", "acct_9", "-c", written.config], { cwd })
      expect(JSON.parse(found.stdout).events).toMatchObject([{ webhook: "stripe", accountId: "acct_9" }])
      // Equal ids from two senders are two events. Each is stored once, even if it arrives again.
      for (const _ of [1, 2]) {
        expect(await send(written, "github", { id: "same", type: "push" })).toBe(202)
        expect(await send(written, "stripe", { id: "same", type: "invoice.voided" })).toBe(202)
      }
      const same = (await events(written.config)).filter(({ id }) => id === "same")
      expect(same.map(({ webhook }) => webhook).toSorted()).toEqual(["github", "stripe"])
      await until(() => lines(`${name}-all.ndjson`).length >= all.length + 2)
      expect(await running.kill("SIGTERM")).toBe(0)
      expect(lines(`${name}-all.ndjson`)).toHaveLength(all.length + 2)
    }, 60_000)

    test(`keeps the last part of the journal for webhooks without a share: ${where}`, async () => {
      const name = `full-${title}`
      const noisy = { ...webhooks.bearer, journalShare: 92 }
      const written = await write(name, {
        journal: { ...journal(name), maxSize: "24 MiB" },
        webhooks: { scheduling: webhooks.scheduling, noisy },
        // No server listens there, so all events wait.
        sinks: { away: { type: "http", url: "http://127.0.0.1:9/" } },
        routes: [{ name: "everything", match: "**", to: "away" }],
      })
      const running = await startRelay(written.config, { cwd })
      const post = async (index: number): Promise<Response> =>
        fetch(`http://127.0.0.1:${written.ports[0]}/hooks/bearer`, {
          method: "POST",
          body: JSON.stringify({ id: `evt_${index}`, kind: "made", text: randomBytes(150_000).toString("base64") }),
          headers: { authorization: `Bearer ${noisy.secrets[0]?.value}`, "content-type": "application/json" },
        })
      let index = 0
      let answer = await post(index)
      for (; answer.status === 202; index++) answer = await post(index)
      expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "30"])
      const trigger = await relay(["trigger", "appointment.created", "--count", "3", "-c", written.config], { cwd })
      expect(trigger.stdout.match(/^202 /gm)).toHaveLength(3)
      const status = await relay(["status", "--json", "-c", written.config], { cwd })
      expect(status.stdout).toContain("webhookFull")
      expect(await running.kill("SIGTERM")).toBe(0)
    }, 60_000)
  }
})
