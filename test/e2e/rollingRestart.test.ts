/**
 * Two relays that are restarted in turn behind the load balancers in `docs/operations/fleet.md`, under 300 deliveries a
 * second. Only addresses are replaced. RESTARTS is the number of rounds.
 */
import { afterEach, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { readPage } from "../lib/docs.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { freePort } from "../lib/port.ts"
import { startRelay } from "../lib/relay.ts"
import { ServerProcess } from "../parts/ServerProcess.ts"
import { envelope, headers, startTarget, type Target } from "./http/fixture.ts"

const page = readPage("docs/operations/fleet.md")
const blocks = [...page.matchAll(/^```(\w*)\n(.*?)^```/gms)]
const nginxBlocks = blocks.filter(([, language]) => language === "nginx").map(([, , text = ""]) => text)
const backend = blocks.map(([, , text = ""]) => text).find((text) => text.startsWith("backend ")) ?? ""
const [, delay = ""] = /"drain": \{ "delay": "(.*?)" \}/.exec(page) ?? []
const rounds = Number(process.env.RESTARTS ?? 1)

const addressed = (config: string, targets: ReadonlyArray<Target>): string =>
  targets.reduce(
    (text, { port, admin }, index) =>
      text
        .replace(new RegExp(`10\\.0\\.0\\.${index + 1}:8080( check port) 9080`), `127.0.0.1:${port}$1 ${admin}`)
        .replace(`10.0.0.${index + 1}:8080`, `127.0.0.1:${port}`),
    config,
  )

const balancers = {
  haproxy: {
    version: "-v",
    config: (port: number) => `defaults
    mode http
    timeout connect 2s
    timeout client 30s
    timeout server 10s
frontend deliveries
    bind 127.0.0.1:${port}
    default_backend relays
${backend}`,
    run: (file: string) => ["haproxy", "-db", "-f", file] as const,
  },
  nginx: {
    version: "-v",
    config: (port: number, home: string) => `pid ${home}/pid;
error_log stderr;
events {}
http {
access_log off;
client_body_temp_path ${home}/body;
proxy_temp_path ${home}/proxy;
fastcgi_temp_path ${home}/fastcgi;
uwsgi_temp_path ${home}/uwsgi;
scgi_temp_path ${home}/scgi;
${nginxBlocks[0]}
server {
listen 127.0.0.1:${port};
location / {
proxy_http_version 1.1;
proxy_set_header Connection "";
${nginxBlocks[1]}
}
}
}
`,
    run: (file: string) => ["nginx", "-c", file, "-g", "daemon off; master_process off;"] as const,
  },
}

const atEnd: Array<() => unknown> = []
afterEach(async () => {
  for (const end of atEnd.splice(0).reverse()) await end()
})

const reasonToSkip = (program: string, version: string): string | undefined => {
  if (spawnSync(program, [version], { stdio: "ignore" }).status !== 0) return `it needs ${program}`
  return process.env.RELAY_PARTS === "1" ? undefined : `RELAY_PARTS=1 bun test runs it with ${program}`
}

/** Sends 300 deliveries a second until `end` is called. Returns the number of each status or error. */
const load = (url: string) => {
  const counts = new Map<number | string, number>()
  const open = new Set<Promise<void>>()
  const send = async () => {
    const body = envelope()
    const status = await fetch(url, { method: "POST", body, headers: headers(body) }).then(
      (response) => response.status,
      ({ code }) => String(code),
    )
    counts.set(status, (counts.get(status) ?? 0) + 1)
  }
  const timer = setInterval(() => {
    for (let sent = 0; sent < 3; sent++) {
      const sending = send().finally(() => open.delete(sending))
      open.add(sending)
    }
  }, 10)
  return async () => {
    clearInterval(timer)
    await Promise.all(open)
    return counts
  }
}

for (const [name, balancer] of Object.entries(balancers)) {
  suiteUnless(reasonToSkip(name, balancer.version), `two relays behind ${name}`, () => {
    test(
      "are restarted in turn under load, and no delivery fails",
      async () => {
        const home = mkdtempSync(join(tmpdir(), "relay-rolling-"))
        atEnd.push(() => rmSync(home, { recursive: true, force: true }))
        const targets = await Promise.all([0, 1].map(() => startTarget({ drain: { delay, refuse: "2 seconds" } })))
        const relays = targets.map(({ relay }) => relay)
        atEnd.push(() => Promise.all(targets.map((target) => target.stop())))
        atEnd.push(() => Promise.all(relays.map((relay) => relay.kill("SIGINT"))))
        const port = await freePort()
        const url = `http://127.0.0.1:${port}/hooks/scheduling`
        const file = join(home, "config")
        writeFileSync(file, addressed(balancer.config(port, home), targets))
        const own = new ServerProcess({
          name,
          home,
          command: balancer.run(file),
          env: process.env,
          isUp: async () => (await fetch(url).catch(() => undefined))?.status === 405,
        })
        atEnd.push(() => own.stop())
        await own.start()
        const end = load(url)
        for (let restart = 0; restart < 2 * rounds; restart++) {
          const index = restart % 2
          expect(await relays[index]?.kill("SIGTERM")).toBe(0)
          const cwd = targets[index]?.directory ?? ""
          relays[index] = await startRelay(join(cwd, "relay.config.json"), { cwd })
        }
        const counts = await end()
        console.log(`${name}: ${JSON.stringify(Object.fromEntries(counts))}`)
        expect([...counts.keys()]).toEqual([202])
      },
      30_000 * (1 + rounds),
    )
  })
}
