/**
 * The database freezes, is killed, and is cut off by a network that drops everything. Deliveries are refused within
 * `commitTimeout`, nothing is lost, and ten seconds after its return events flow again.
 */
import { makePostgres } from "../../parts/Postgres.ts"
import { makeProxy } from "../../parts/Proxy.ts"
import type { Line } from "../Line.ts"
import { names, over, Relays, seconds, underLoad } from "./Relays.ts"

const kills = { normal: 1, long: 20 }
const cuts = { normal: 1, long: 20 }
const standstill = { normal: 4_000, long: 30_000 }
/** `commitTimeout` is three seconds unless the config says otherwise; its sweep and the machine's load come on top. */
const refusedWithin = 4_500
const flowsWithin = 10_000

/** Every relay refuses in time while the database does not answer. */
const refuse = async (relays: Relays, what: string, broken: Array<string>): Promise<void> => {
  await Promise.all(
    names.map(async (name) => {
      const began = performance.now()
      const status = await relays.subject(name).sender.send()
      const took = performance.now() - began
      if (status !== 503) broken.push(`${what}: ${name} answered ${status} and not 503`)
      if (took > refusedWithin) broken.push(`${what}: ${name} answered only after ${seconds(took)}`)
    }),
  )
}

/** Harms the database under load. Returns the milliseconds until events flow again. */
const round = async (relays: Relays, what: string, broken: Array<string>, harm: () => Promise<void>) => {
  let flowing = Number.NaN
  await underLoad(relays, async () => {
    await Bun.sleep(700)
    await harm()
    const took = await relays.accepts(40)
    flowing = took ?? Number.POSITIVE_INFINITY
    if (took === undefined) broken.push(`${what}: nothing flows 40 s after it is over`)
    else if (took > flowsWithin) broken.push(`${what}: it flows only ${seconds(took)} after it is over`)
  })
  if (!(await relays.arrived(60))) broken.push(`${what}: not all came within a minute`)
  return flowing
}

/** Lets a freeze last, and checks that no relay accepts a delivery meanwhile. */
const standStill = async (relays: Relays, what: string, broken: Array<string>, millis: number): Promise<void> => {
  // Requests from before the freeze are answered by then.
  await Bun.sleep(500)
  const began = performance.now()
  await refuse(relays, what, broken)
  await Bun.sleep(Math.max(0, millis - (performance.now() - began)))
  await refuse(relays, `${what} for long`, broken)
}

const flowed = (longest: number): ReadonlyArray<string> => [`flowing again after ${seconds(longest)} at most`]

export const database: Line = {
  name: "fleet-database",
  fault: "the database frozen, and killed",
  run: over(async (relays, options) => {
    const broken: Array<string> = []
    const length = options.long ? "long" : "normal"
    let longest = await round(relays, "frozen", broken, async () => {
      relays.postgres.freeze()
      await standStill(relays, "frozen", broken, standstill[length])
      relays.postgres.thaw()
    })
    for (let kill = 1; kill <= kills[length]; kill++) {
      const took = await round(relays, `killed (${kill})`, broken, async () => {
        await relays.postgres.kill()
        await relays.postgres.start()
      })
      longest = Math.max(longest, took)
    }
    return { rounds: kills[length] + 1, duplicates: relays.repeated, broken, notes: flowed(longest) }
  }),
}

let proxy: Awaited<ReturnType<typeof makeProxy>> | undefined

export const network: Line = {
  name: "fleet-network",
  fault: "the database cut off, by a stall and by resets",
  run: over(
    async (relays, options) => {
      const broken: Array<string> = []
      const length = options.long ? "long" : "normal"
      let longest = await round(relays, "stalled", broken, async () => {
        proxy?.stall()
        await standStill(relays, "stalled", broken, standstill[length])
        proxy?.flow()
      })
      for (let cut = 1; cut <= cuts[length]; cut++) {
        longest = Math.max(longest, await round(relays, `cut (${cut})`, broken, async () => proxy?.cut()))
      }
      await proxy?.close()
      return { rounds: cuts[length] + 1, duplicates: relays.repeated, broken, notes: flowed(longest) }
    },
    async (options) => {
      const postgres = await makePostgres()
      const through = await makeProxy(postgres.port)
      proxy = through
      return Relays.make(options, { postgres, url: ({ url, port }) => url.replace(`:${port}/`, `:${through.port}/`) })
    },
  ),
}
