/** The page as every kind of relay serves it: its files are in the program, and its streams work. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { writeConfig } from "../lib/kit.ts"
import { type Relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const cwd = temporaryDirectory("e2e-page-")
let running: Relay
let admin = ""
let hooks = ""
beforeAll(async () => {
  const written = await writeConfig(cwd)
  admin = written.admin
  hooks = written.url
  running = await startRelay(written.config, { cwd })
})
afterAll(() => running.kill())

test("the page and its linked files are served compressed", async () => {
  const links = [...(await (await fetch(admin)).text()).matchAll(/(?:href|src)="([^"]+)"/g)].map(([, path]) => path)
  expect(links.length).toBe(3)
  for (const path of links) {
    const file = await fetch(`${admin}/${path}`, { headers: { "accept-encoding": "br" } })
    expect([file.status, file.headers.get("content-encoding")]).toEqual([200, "br"])
    expect((await file.text()).length).toBeGreaterThan(100)
  }
})

test("the page needs nothing outside of its own path, so a proxy may serve it below another path", async () => {
  const linked = async (path: string): Promise<string> => (await fetch(`${admin}/${path}`)).text()
  const page = await linked("")
  const [script = ""] = /page-\w+\.js/.exec(page) ?? []
  const all = `${page}\n${await linked(script)}`
  expect(all).toContain("api/v1")
  expect(all.match(/["'`]\/(?:api|page-)[^"'`]*/g)).toBeNull()
  expect(all.match(/(?:href|src)[=:] ?["']\/[^"']*/g)).toBeNull()
})

test("the live view shows new events, and a stop doesn't wait for its viewers", async () => {
  const reader = (await fetch(`${admin}/api/v1/tap`)).body?.pipeThrough(new TextDecoderStream()).getReader()
  // The delivery is not signed, so that the page also shows a refusal.
  await fetch(hooks, { method: "POST", body: "{}", headers: { "content-type": "application/json" } })
  let text = ""
  for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) {
    text += read.value
    if (text.includes('"refused":[{')) break
  }
  expect(text).toContain('"status":401')
  expect(await running.kill()).toBe(0)
})
