/**
 * `relay restart` under the clients of `DeliveryClients.ts`, with a journal that keeps many events. RESTARTS is the
 * number of restarts, KEPT the number of events.
 */
import { afterEach, expect, test } from "bun:test"
import { join } from "node:path"
import { Effect } from "effect"
import * as Fill from "../bench/Fill.ts"
import { bodyOf } from "../faults/relay/Traffic.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import * as DeliveryClients from "../parts/DeliveryClients.ts"
import { secret } from "./http/fixture.ts"
import { keepsAll, startRestartable } from "./restarting.ts"

const restarts = Number(process.env.RESTARTS ?? 2)
const kept = Number(process.env.KEPT ?? 20_000)

const atEnd: Array<() => unknown> = []
afterEach(async () => {
  for (const end of atEnd.splice(0).reverse()) await end()
})

suiteUnless(DeliveryClients.reasonToSkip(), "behind nginx, Caddy and HAProxy, and under Node's agent", () => {
  test(
    `${restarts} restarts under 300 deliveries a second with ${kept.toLocaleString("en")} kept events fail no delivery and lose none`,
    async () => {
      const home = temporaryDirectory("restart-")
      const path = join(home, "journal.db")
      await Effect.runPromise(Fill.run(path, { events: kept, lane: "audit", isDelivered: true }))
      const { target, restart, stop } = await startRestartable({ journal: { path, maxSize: "1 TiB" } })
      atEnd.push(stop)
      const addresses = { deliveries: `127.0.0.1:${target.port}`, admin: `127.0.0.1:${target.admin}` }
      const clients = await DeliveryClients.start({ ...addresses, secret, home })
      atEnd.push(clients.stop)
      let longestHold = 0
      for (let count = 0; count < restarts; count++) {
        const { code, stdout, stderr } = await restart()
        expect([code, stderr]).toEqual([0, ""])
        longestHold = Math.max(longestHold, JSON.parse(stdout).took)
      }
      const { counts, longest, accepted } = await clients.end()
      console.log(
        `${accepted.length} deliveries during ${restarts} restarts with ${kept} kept events: held ${longestHold} ms at most, slowest response ${longest} ms`,
      )
      for (const [client, statuses] of Object.entries(counts)) {
        expect([client, Object.keys(statuses)]).toEqual([client, ["202"]])
      }
      await keepsAll(target, accepted.map(bodyOf))
    },
    120_000 + restarts * 15_000 + kept / 5,
  )
})
