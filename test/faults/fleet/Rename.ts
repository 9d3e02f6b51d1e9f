/**
 * Sinks are renamed by reloads under load, relay after relay, and one relay gets its config late. Every acknowledged
 * event arrives, and events of a key arrive in order.
 */
import { seeded } from "../../lib/seeded.ts"
import { isEnough, type Line, mutantsOf } from "../Line.ts"
import { type Name, names, over, type Relays, seconds, underLoad } from "./Relays.ts"

const rounds = { normal: 3, long: 60 }
/** Seconds until every relay reports its journal as ok again. */
const limit = 10
/** A name is used again after this many renames. */
const cycle = 3

const line = "fleet-rename"

const named = (sink: string, round: number): string => `${sink}${round % cycle}`

/** The config of a round, in which each sink has another name than in the one before. */
const configure = (relays: Relays, name: Name, round: number): void => {
  const sinks = Object.fromEntries(
    Object.entries(relays.sinksOf(name)).map(([sink, config]) => [
      named(sink, round),
      { ...config, renamedFrom: round === 1 ? sink : named(sink, round - 1) },
    ]),
  )
  const routes = relays.routes.map((route) => ({ ...route, to: named(route.to, round) }))
  relays.subject(name).write("relay.config.json", { sinks, routes })
}

const reload = async (relays: Relays, name: Name, round: number): Promise<ReadonlyArray<string>> => {
  configure(relays, name, round)
  const [status, said] = await relays.subject(name).reload()
  return status === 200 ? [] : [`round ${round}: the reload of ${name} answered ${status}: ${said}`]
}

export const rename: Line = {
  name: line,
  fault: "sinks renamed by reloads under load, one relay late",
  run: over(async (relays, options) => {
    const random = seeded(options.seed)
    const broken: Array<string> = []
    const count = options.long ? rounds.long : rounds.normal
    let slowest = 0
    await underLoad(relays, async () => {
      for (let round = 1; round <= count && !isEnough(options, broken.length); round++) {
        await Bun.sleep(300 + random() * 500)
        const [late = "c", ...others] = names.toSorted(() => random() - 0.5)
        const began = performance.now()
        for (const name of others) broken.push(...(await reload(relays, name, round)))
        await Bun.sleep(random() * 1_500)
        broken.push(...(await reload(relays, late, round)))
        slowest = Math.max(slowest, performance.now() - began)
      }
    })
    if (!(await relays.arrived(60))) broken.push("not all came within a minute")
    broken.push(...(await relays.troubles(limit)))
    return { rounds: count, duplicates: relays.repeated, broken, notes: [`all renamed within ${seconds(slowest)}`] }
  }),
}

export const renameMutants = mutantsOf({
  "fleet-rename": {
    "what is appended under a former name belongs to the lane that has another name since": [
      "src/journal/postgres/tables/LaneNames.ts",
      "return alias !== undefined && sequence > alias.after ? alias.to : name",
      "return alias !== undefined && sequence < alias.after ? alias.to : name",
    ],
    "what is appended under a new name belongs to the lane that the sink still has under its former one": [
      "src/journal/postgres/append/Commits.ts",
      "formerNames.has(lane) ? [[lane, formerNames.get(lane)]] : []",
      "formerNames.has(lane) ? [] : []",
    ],
  },
})
