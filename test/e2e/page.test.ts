/** The page as each way of running the relay serves it: its files are in the program, and its streams flow. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../lib/port.ts"
import { type Relay, startRelay } from "../lib/relay.ts"

const cwd = mkdtempSync(join(tmpdir(), "relay-e2e-page-"))
let running: Relay
let admin = ""
let hooks = ""
beforeAll(async () => {
  const port = await freePort()
  admin = `http://127.0.0.1:${port}`
  const receiver = `127.0.0.1:${await freePort()}`
  hooks = `http://${receiver}/hooks`
  const config = join(cwd, "relay.config.json")
  writeFileSync(
    config,
    JSON.stringify({
      listen: receiver,
      admin: { listen: `127.0.0.1:${port}` },
      journal: { path: join(cwd, "journal.db") },
      webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: "a-secret-of-this-test" }] } },
      sinks: { audit: { type: "file", path: join(cwd, "audit.ndjson") } },
      routes: [{ name: "everything", match: "**", to: "audit" }],
    }),
  )
  running = await startRelay(config, { cwd })
})
afterAll(async () => {
  await running.kill()
  rmSync(cwd, { recursive: true })
})

test("the page and what it links are served, compressed", async () => {
  const links = [...(await (await fetch(admin)).text()).matchAll(/(?:href|src)="([^"]+)"/g)].map(([, path]) => path)
  expect(links.length).toBe(3)
  for (const path of links) {
    const file = await fetch(`${admin}${path}`, { headers: { "accept-encoding": "br" } })
    expect([file.status, file.headers.get("content-encoding")]).toEqual([200, "br"])
    expect((await file.text()).length).toBeGreaterThan(100)
  }
})

test("the live view shows what comes, and a stop does not wait for who listens", async () => {
  const reader = (await fetch(`${admin}/api/v1/tap`)).body?.pipeThrough(new TextDecoderStream()).getReader()
  // It is not signed: a refusal is shown as well.
  await fetch(hooks, { method: "POST", body: "{}", headers: { "content-type": "application/json" } })
  let text = ""
  for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) {
    text += read.value
    if (text.includes('"refused":[{')) break
  }
  expect(text).toContain('"status":401')
  expect(await running.kill()).toBe(0)
})
