/** A relay in trouble with its page: the binary, sinks that fail on request, and hostile events. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { hmacSha256, sign } from "../../src/event/Signature.ts"
import { freePort } from "../lib/port.ts"
import { type Relay, relay, startRelay } from "../lib/relay.ts"

const secret = "a-secret-of-the-page-suite"
export const token = "a-token-of-the-page-suite-0123456789"

/** Shown as text, this must not change the page, run, or reverse the text next to it. */
export const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>&lt;b&gt;\u202egnp.exe\u2066\u0007`
/** Personal data, which the page masks until the reader asks for it. */
export const personal = "Ada Lovelace, +44 20 7946 0000"

export interface Site {
  /** `http://127.0.0.1:9080` */
  readonly url: string
  readonly config: () => Record<string, unknown>
  readonly writeConfig: (config: unknown) => void
  /** The sinks' answers, by path. */
  readonly answers: Map<string, () => Response>
  /** Paths of the requests to sinks. */
  readonly received: Array<string>
  /** Sends a signed delivery. Returns the status. */
  readonly deliver: (event: {
    readonly id: string
    readonly type: string
    readonly account?: string
    readonly object?: object
  }) => Promise<number>
  readonly deliverUnsigned: (path: string) => Promise<number>
  /** Runs a command to its end. Returns its stdout. */
  readonly run: (...args: ReadonlyArray<string>) => Promise<string>
  /** Kills the relay and starts it again. `meanwhile` runs in between. */
  readonly restart: (meanwhile: () => Promise<void>) => Promise<void>
  /** Stops the relay's process. `thaw` resumes it. */
  readonly freeze: () => void
  readonly thaw: () => void
  readonly stop: () => Promise<void>
}

export interface SiteOptions {
  /** Settings of the admin API in addition to its address. */
  readonly admin?: { readonly token: string } | { readonly tokens: ReadonlyArray<object> }
}

export const startSite = async (options: SiteOptions = {}): Promise<Site> => {
  const cwd = mkdtempSync(join(tmpdir(), "relay-page-"))
  const [port, admin] = [await freePort(), await freePort()]
  const answers = new Map<string, () => Response>()
  const received: Array<string> = []
  const sinks = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) => {
      const { pathname } = new URL(request.url)
      received.push(pathname)
      return answers.get(pathname)?.() ?? new Response("ok")
    },
  })
  const sink = (path: string) => ({
    type: "http",
    url: `http://127.0.0.1:${sinks.port}/${path}`,
    keepAnswers: true,
    delivery: { retry: { initial: "200 millis", max: "1 second" } },
  })
  const original = {
    listen: `127.0.0.1:${port}`,
    admin: { listen: `127.0.0.1:${admin}`, ...options.admin },
    journal: { path: join(cwd, "journal.db"), minFree: "1 MiB" },
    webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: secret }] } },
    sinks: {
      audit: { type: "file", path: join(cwd, "audit.ndjson") },
      crm: sink("crm"),
      lake: sink("lake"),
      old: sink("old"),
    },
    routes: [
      { name: "everything", match: "**", to: ["audit"] },
      { name: "clients", match: "client.*", to: ["crm"] },
      { name: "appointments", match: "appointment.*", to: ["lake"] },
      { name: "services", match: "service.*", to: ["old"] },
    ],
  }
  const file = join(cwd, "relay.config.json")
  const writeConfig = (config: unknown) => writeFileSync(file, JSON.stringify(config))
  writeConfig(original)
  let running: Relay = await startRelay(file, { cwd })
  const hmac = hmacSha256(secret)

  return {
    url: `http://127.0.0.1:${admin}`,
    config: () => structuredClone(original),
    writeConfig,
    answers,
    received,
    deliver: async ({ id, type, account = "acct_1", object = {} }) => {
      const body = new TextEncoder().encode(
        JSON.stringify({
          id,
          account_id: account,
          version: "1",
          created_at: "2026-01-01T00:00:00Z",
          data: { type, object },
        }),
      )
      const headers = { "content-type": "application/json", "x-service-signature": sign(hmac, body) }
      return (await fetch(`http://127.0.0.1:${port}/hooks`, { method: "POST", headers, body })).status
    },
    deliverUnsigned: async (path) =>
      (
        await fetch(`http://127.0.0.1:${port}${path}`, {
          method: "POST",
          body: "{}",
          headers: { "content-type": "application/json" },
        })
      ).status,
    run: async (...args) => (await relay([...args, "-c", file], { cwd })).stdout,
    restart: async (meanwhile) => {
      await running.kill()
      await meanwhile()
      running = await startRelay(file, { cwd })
    },
    freeze: () => running.signal("SIGSTOP"),
    thaw: () => running.signal("SIGCONT"),
    stop: async () => {
      await running.kill()
      await sinks.stop(true)
      rmSync(cwd, { recursive: true, force: true })
    },
  }
}
