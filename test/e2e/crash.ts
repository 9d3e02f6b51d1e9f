/**
 * `bun run crash`: kill -9 under load, round after round, over one journal.
 *
 * Each round starts the relay, sends signed events as fast as it answers, kills
 * it at a random moment and remembers every 202. In the end all of them must
 * stand in both sinks, and no round may have repeated more deliveries than the
 * bound that the relay itself exported.
 *
 *   bun run crash [--rounds 20] [--binary dist/relay] [--seed 1]
 */
import { createHmac } from "node:crypto"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { freePort, type Relay, startRelay } from "../lib/relay.ts"
import { seeded } from "../lib/seeded.ts"

const { values: flags } = parseArgs({
  options: {
    rounds: { type: "string", default: "20" },
    binary: { type: "string" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
  },
})
const rounds = Number(flags.rounds)
const random = seeded(Number(flags.seed))
const directory = mkdtempSync(join(tmpdir(), "relay-crash-"))
const secret = "crash-test-secret"
const connections = 32

/** Deliveries by event id, at the HTTP sink, since the round began and in all. */
const received = new Map<string, number>()
let receivedThisRound = new Map<string, number>()
const receiver = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch: async (request) => {
    const { id } = (await request.json()) as { id: string }
    received.set(id, (received.get(id) ?? 0) + 1)
    receivedThisRound.set(id, (receivedThisRound.get(id) ?? 0) + 1)
    return new Response(null, { status: 204 })
  },
})

const listen = `127.0.0.1:${await freePort()}`
const admin = `127.0.0.1:${await freePort()}`
const file = join(directory, "events.ndjson")
const config = join(directory, "relay.config.json")
writeFileSync(
  config,
  JSON.stringify({
    listen,
    admin: { listen: admin },
    journal: { type: "sqlite", path: join(directory, "journal.db") },
    webhooks: { scheduling: { path: "/hooks/scheduling", secrets: [{ name: "test", value: secret }] } },
    sinks: {
      file: { type: "file", path: file },
      http: { type: "http", url: `http://127.0.0.1:${receiver.port}/` },
    },
    routes: [{ name: "everything", match: "**", to: ["file", "http"] }],
  }),
)

let sent = 0
const acknowledged = new Set<string>()

const sendOne = async (): Promise<void> => {
  const id = `evt_${sent++}`
  const body = JSON.stringify({
    id,
    account_id: `acct_${sent % 50}`,
    version: "1",
    created_at: "2026-11-21T00:00:00Z",
    data: { type: "appointment.created", object: { id: `apt_${sent}`, note: "x".repeat(400) } },
  })
  const signature = `sha256=${createHmac("sha256", secret).update(body).digest("hex").toUpperCase()}`
  const response = await fetch(`http://${listen}/hooks/scheduling`, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", "x-service-signature": signature },
  })
  await response.arrayBuffer()
  if (response.status === 202) acknowledged.add(id)
}

/** Sends until the relay is gone. */
const load = async (until: () => boolean): Promise<void> => {
  const worker = async () => {
    while (!until()) await sendOne().catch(() => Bun.sleep(5))
  }
  await Promise.all(Array.from({ length: connections }, worker))
}

const metric = async (name: string): Promise<Map<string, number>> => {
  const text = await (await fetch(`http://${admin}/metrics`)).text()
  const found = new Map<string, number>()
  for (const [, sink, value] of text.matchAll(new RegExp(`^${name}\\{[^}]*sink="([^"]+)"[^}]*\\} (\\S+)$`, "gm"))) {
    found.set(sink as string, Number(value))
  }
  return found
}

const fileIds = (): Map<string, number> => {
  const ids = new Map<string, number>()
  for (const line of readFileSync(file, "utf8").split("\n")) {
    if (line === "") continue
    const { id } = JSON.parse(line) as { id: string }
    ids.set(id, (ids.get(id) ?? 0) + 1)
  }
  return ids
}

const start = (): Promise<Relay> =>
  startRelay(config, { cwd: directory, ...(flags.binary === undefined ? {} : { binary: flags.binary }) })

let worst = 0
let broken = 0
console.log(`seed ${flags.seed}\nround  acknowledged  repeated (http)  bound  verdict`)
for (let round = 1; round <= rounds; round++) {
  const relay = await start()
  let dead = false
  let bound = 0
  const watch = (async () => {
    while (!dead) {
      bound = Math.max(bound, (await metric("relay_duplicate_bound_events").catch(() => new Map())).get("http") ?? 0)
      await Bun.sleep(20)
    }
  })()
  const before = acknowledged.size
  const loading = load(() => dead)
  await Bun.sleep(400 + random() * 800)
  await relay.kill("SIGKILL")
  dead = true
  await Promise.all([loading, watch])
  // What the next start repeats of this round is what the crash cost.
  const beforeRestart = new Map(received)
  receivedThisRound = new Map()
  const again = await start()
  await drained()
  const repeated = [...receivedThisRound.keys()].filter((id) => beforeRestart.has(id)).length
  await again.kill("SIGKILL")
  const ok = repeated <= bound
  if (!ok) broken += 1
  worst = Math.max(worst, repeated)
  console.log(
    `${String(round).padStart(5)}  ${String(acknowledged.size - before).padStart(12)}  ${String(repeated).padStart(15)}  ${String(bound).padStart(5)}  ${ok ? "ok" : "OVER THE BOUND"}`,
  )
}

async function drained(): Promise<void> {
  for (let turn = 0; turn < 600; turn++) {
    const backlog = await metric("relay_lane_backlog_events").catch(() => undefined)
    if (backlog !== undefined && backlog.size > 0 && [...backlog.values()].every((events) => events === 0)) return
    await Bun.sleep(50)
  }
  throw new Error("the backlog did not drain within 30 seconds")
}

const inFile = fileIds()
const lostFile = [...acknowledged].filter((id) => !inFile.has(id))
const lostHttp = [...acknowledged].filter((id) => !received.has(id))
const twice = (ids: Map<string, number>) => [...ids.values()].reduce((sum, times) => sum + times - 1, 0)
console.log(
  `\n${rounds} rounds, ${acknowledged.size} acknowledged: lost at the file sink ${lostFile.length}, at the HTTP sink ${lostHttp.length}; repeated ${twice(inFile)} and ${twice(received)}, ${worst} in the worst round`,
)
await receiver.stop(true)
const failed = lostFile.length + lostHttp.length + broken > 0 || acknowledged.size === 0
if (failed) console.log(`kept for a look: ${directory}`)
else rmSync(directory, { recursive: true })
process.exit(failed ? 1 : 0)
