/**
 * A canary is in every secret place: the signing secret, the admin token, a sink's credentials, tokens and URL, and a
 * client's personal data. The relay must not print, answer or publish any of them, even when its sinks fail and its
 * journal is removed.
 */
import { afterAll, describe, expect, test } from "bun:test"
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { sign as signed } from "../lib/kit.ts"
import { freePort } from "../lib/port.ts"
import { relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const cwd = temporaryDirectory("canary-")
const secret = "canary-secret-2718281828"
const token = "canary-token-1618033988"
const credential = "canary-credential-1414213562"
const person = "canary-person-5772156649"
const access = "canary-access-1202056903"
const bearer = "canary-bearer-3141592653"
const verifyToken = "canary-verify-1644934066"
const all = [secret, token, credential, person, access, bearer, verifyToken]

const answers = [500, 400, 429, 302, 404]
let turn = 0
/** Bodies that the alert services received. */
const alerts: Array<string> = []
const receiver = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  // Many receivers repeat the request in their answer, and so does this one.
  fetch: async (request) => {
    const body = await request.text()
    if (request.method === "POST" && new URL(request.url).pathname.startsWith("/alerts")) alerts.push(body)
    const { pathname } = new URL(request.url)
    if (pathname === "/token") return Response.json({ access_token: access, token_type: "Bearer" })
    const isTooLarge = pathname.startsWith("/refused")
    const status = isTooLarge ? 413 : (answers[turn++ % answers.length] ?? 500)
    return new Response(`${request.url} ${request.headers.get("authorization")} ${body}`, { status })
  },
})

afterAll(() => receiver.stop(true))

const send = (port: number, body: string, signature: string) =>
  fetch(`http://127.0.0.1:${port}/hooks/scheduling`, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", "x-service-signature": signature },
  })

const sign = (body: string) => signed(body, secret)

const client = (id: string) =>
  JSON.stringify({
    id,
    account_id: "acct_1",
    version: "1",
    created_at: "2026-11-21T00:00:00Z",
    data: { type: "client.created", object: { id: "cli_1", first_name: person, email: `${person}@example.com` } },
  })

/** An alert sink with a credential in every place that accepts one. */
const alert = (type: string) => ({
  type,
  url: `http://127.0.0.1:${receiver.port}/alerts/${credential}`,
  headers: { authorization: `Bearer ${credential}` },
  ...(type === "pagerduty" && { routingKey: credential }),
  delivery: { retry: { initial: "10 millis", max: "50 millis", maxAttempts: 2 } },
})
const services = ["pagerduty", "slack", "teams", "discord", "alertmanager"]

describe("a relay whose config, events and answers hold canaries", () => {
  test("no secret and no personal data is in a log, a metric, an answer or a crash", async () => {
    const [port, admin] = [await freePort(), await freePort()]
    const config = join(cwd, "relay.config.json")
    writeFileSync(
      config,
      JSON.stringify({
        listen: `127.0.0.1:${port}`,
        admin: { listen: `127.0.0.1:${admin}`, token },
        journal: { type: "sqlite", path: join(cwd, "journal.db") },
        behindProxy: true,
        webhooks: {
          scheduling: { path: "/hooks/scheduling", secrets: [{ name: "only", value: secret }] },
          billing: {
            path: "/hooks/billing",
            secrets: [{ name: "only", value: bearer }],
            verify: "bearer",
            verifyToken,
            event: { type: "/data/type", id: "/id" },
          },
        },
        sinks: {
          http: {
            type: "http",
            url: `http://127.0.0.1:${receiver.port}/${credential}?key=${credential}`,
            headers: { authorization: `Bearer ${credential}` },
            delivery: { retry: { initial: "10 millis", max: "50 millis", maxAttempts: 2 } },
          },
          refused: {
            type: "http",
            url: `http://127.0.0.1:${receiver.port}/refused/${credential}?key=${credential}`,
            oauth: {
              tokenUrl: `http://127.0.0.1:${receiver.port}/token`,
              clientId: "relay",
              clientSecret: credential,
            },
          },
          console: { type: "console" },
          sns: {
            type: "sns",
            topicArn: "arn:aws:sns:eu-west-1:123456789012:events",
            endpoint: `http://127.0.0.1:${receiver.port}`,
            credentials: { accessKeyId: credential, secretAccessKey: credential, sessionToken: credential },
            delivery: { retry: { initial: "10 millis", max: "50 millis" } },
          },
          ...Object.fromEntries(services.map((type) => [type, alert(type)])),
        },
        routes: [{ name: "everything", match: "**", to: ["http", "refused", "console", "sns", ...services] }],
        tests: [
          {
            event: "client.created",
            object: { id: "cli_1", first_name: person },
            to: ["http", "refused", "console", "sns", ...services],
            payloads: Object.fromEntries(services.map((name) => [name, `golden/${name}.json`])),
          },
        ],
      }),
    )
    const own = await startRelay(config, { cwd })
    const said: Array<string> = []
    for (let n = 0; n < 20; n++) {
      const body = client(`evt_${n}`)
      const response = await send(port, body, sign(body))
      expect(response.status).toBe(202)
      said.push(await response.text())
    }
    const broken = `{"first_name":"${person}"`
    for (const [body, signature] of [
      [broken, sign(broken)],
      [client("evt_forged"), "sha256=0"],
      [client("evt_forged"), secret],
    ] as const) {
      said.push(await (await send(port, body, signature)).text())
    }
    for (const authorization of [`Bearer ${bearer}`, `Basic ${bearer}`, `Bearer ${bearer}${bearer}`]) {
      const headers = { "content-type": "application/json", authorization }
      const url = `http://127.0.0.1:${port}/hooks/billing`
      said.push(await (await fetch(url, { method: "POST", body: client("evt_billing"), headers })).text())
    }
    for (const path of ["billing", "scheduling", "none"]) {
      const query = `hub.mode=subscribe&hub.challenge=1&hub.verify_token=${verifyToken}`
      said.push(await (await fetch(`http://127.0.0.1:${port}/hooks/${path}?${query}`)).text())
    }
    await own.prints("dead letter")
    await own.prints("sink sns does not deliver")
    const headers = { authorization: `Bearer ${token}` }
    said.push(await (await fetch(`http://127.0.0.1:${admin}/metrics`, { headers })).text())
    const commands = [
      ["status"],
      ["status", "--json"],
      ["lanes", "list"],
      ["dlq", "list"],
      ["validate", "--offline"],
      ["test", "--update"],
      ["explain", "client.created", "--payload", "http"],
      ["events"],
      ["explain", "evt_0"],
      ["explain", "evt_0", "--json"],
      ["explain", "seq_21"],
      ["explain", "evt_billing"],
    ]
    const printed = await Promise.all(commands.map((args) => relay([...args, "-c", config], { cwd })))
    for (const { stdout, stderr } of printed) said.push(stdout, stderr)
    for (const args of [["lanes", "pause", "sns"], ["replay", "--routed", "--all"], ["audit"], ["audit", "--json"]]) {
      const { stdout, stderr } = await relay([...args, "-c", config], { cwd })
      said.push(stdout, stderr)
    }
    // A dead letter is shown with its payload and the answers. They contain personal data, but no credential.
    const letters = await relay(["dlq", "list", "--sink", "refused", "--json", "-c", config], { cwd })
    const { attempts } = JSON.parse(
      (await relay(["dlq", "show", JSON.parse(letters.stdout)[0].id, "--json", "-c", config], { cwd })).stdout,
    )
    expect(attempts[0].answer).toContain(person)
    expect(attempts[0].answer).toContain("Bearer ***")
    said.push(JSON.stringify(attempts).replaceAll(person, ""))
    expect(said.join("\n")).toContain("relay_dead_letters")
    expect(said.join("\n")).toMatch(/what http (was|would be) sent/)
    expect(said.join("\n")).toMatch(/admin +the command line +lanes pause +sns +done/)
    expect(said.join("\n")).toContain("the body is not JSON")
    expect(said.join("\n")).toContain("none, it came with the secret only")
    for (const name of services) said.push(readFileSync(join(cwd, `golden/${name}.json`), "utf8"))
    // An alert names the event and its client by id only.
    expect(alerts.length).toBeGreaterThan(0)
    said.push(...alerts.map((body) => body.replace(`"routing_key":"${credential}"`, "")))
    // The journal is removed while the relay has it open. The relay stops and reports it.
    rmSync(join(cwd, "journal.db"))
    const last = client("evt_last")
    // The relay may end before it answers.
    const answer = send(port, last, sign(last)).then((response) => response.text())
    said.push(await answer.catch(() => ""))
    expect(await own.exited).toBe(74)
    said.push(own.stdout(), own.stderr())
    const text = said.join("\n")
    for (const canary of all) expect(text.includes(canary) ? canary : "").toBe("")
  })
})
