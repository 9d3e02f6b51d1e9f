/**
 * `bun test/parts/several.ts` runs PostgreSQL, two relays on it and a load balancer on 127.0.0.1:8080 until Ctrl-C, by
 * config/examples/fleet.json.
 */

import { startFleet } from "./Fleet.ts"
import { missing } from "./Postgres.ts"

const lacking = missing()
if (lacking !== undefined) {
  console.error(`PostgreSQL is missing: ${lacking}`)
  process.exit(1)
}
const backoffice = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: async (request) => {
    const { id } = (await request.json()) as { readonly id: string }
    console.log(`the backoffice has ${id}`)
    return new Response()
  },
})
const fleet = await startFleet(["relay-1", "relay-2"], `http://127.0.0.1:${backoffice.port}/events`, 8080)
let isEnding = false
const end = async () => {
  if (isEnding) return
  isEnding = true
  console.log("the relays drain")
  await fleet.stop()
  process.exit(0)
}
process.once("SIGINT", () => void end())
process.once("SIGTERM", () => void end())
console.log(`PostgreSQL listens on ${fleet.database.address}: ${fleet.database.admin}`)
for (const { name, url, admin, relay } of fleet.members)
  console.log(`${name} (pid ${relay.pid}) listens on ${url}, its admin API on ${admin}`)
console.log(`the load balancer listens on ${fleet.url}
Send events:         bun src/main.ts trigger appointment.created --count 10 -c config/examples/fleet.json
Kill one and go on:  kill -9 ${fleet.members[0]?.relay.pid}
What was kept goes when this ends (Ctrl-C).`)
