/** Deliveries of other senders through a whole relay: `relay trigger` signs them, and routes, templates and sinks see them. */
import { describe, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { Event } from "../../src/event/Event.ts"
import { writeConfig } from "../lib/kit.ts"
import { relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

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
}

const lines = (file: string): ReadonlyArray<string> =>
  existsSync(join(cwd, file)) ? readFileSync(join(cwd, file), "utf8").split("\n").slice(0, -1) : []

describe("a relay with webhooks of several senders", () => {
  test("accepts what trigger signs for each, routes it by type and webhook, and refuses a changed body", async () => {
    const file = (path: string) => ({ type: "file", path })
    const { config } = await writeConfig(
      cwd,
      { all: file("all.ndjson"), issues: file("issues.ndjson"), paid: file("paid.ndjson") },
      {
        webhooks,
        routes: [
          { name: "everything", match: "**", to: "all" },
          { name: "issues", match: "issues.*", webhook: "github", to: "issues" },
          { name: "paid", match: "invoice.paid", where: { "/data/object/account": "acct_9" }, to: "paid" },
        ],
      },
      "senders.json",
    )
    const running = await startRelay(config, { cwd })
    const trigger = async (...args: ReadonlyArray<string>) => relay(["trigger", ...args, "-c", config], { cwd })
    const sent = await Promise.all([
      trigger("appointment.created", "--webhook", "scheduling"),
      trigger("issues.opened", "--webhook", "github", "--account", "acme/shop"),
      trigger("invoice.paid", "--webhook", "stripe", "--account", "acct_9"),
      trigger("invoice.paid", "--webhook", "stripe", "--account", "acct_8"),
      trigger("invoice.paid", "--webhook", "stripe", "--tamper"),
      trigger("user.created", "--webhook", "other"),
      trigger("message.sent", "--webhook", "own", "--account", "T1"),
    ])
    expect(sent.map(({ code, stderr }) => [code, stderr])).toEqual(sent.map(() => [0, ""]))
    while (lines("all.ndjson").length < 6 || lines("paid.ndjson").length < 1 || lines("issues.ndjson").length < 1) {
      await Bun.sleep(10)
    }
    const issue = JSON.parse(lines("issues.ndjson")[0] ?? "")
    expect(issue).toEqual({ sample: true, action: "opened", repository: { full_name: "acme/shop" } })
    const listed = await relay(["events", "--json", "-c", config], { cwd })
    const { events } = JSON.parse(listed.stdout) as { readonly events: ReadonlyArray<Event> }
    expect(events.map(({ webhook, type, accountId }) => [webhook, type, accountId]).toSorted()).toEqual([
      ["github", "issues.opened", "acme/shop"],
      ["other", "user.created", ""],
      ["own", "message.sent", "T1"],
      ["scheduling", "appointment.created", "acct_sample"],
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
