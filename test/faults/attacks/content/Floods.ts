/** Many events that are harmless one by one. */
import { eventually } from "../../relay/Subject.ts"
import { inTurns } from "../Attack.ts"
import type { SinkName, Stage } from "../Stage.ts"
import { event } from "./Content.ts"

export interface Result {
  readonly acknowledged: number
  readonly lost: number
  readonly broken: ReadonlyArray<string>
}

export interface Scene {
  readonly name: string
  readonly run: (stage: Stage) => Promise<Result>
}

interface FloodScene extends Scene {
  readonly to: SinkName
}

interface Flood {
  readonly name: string
  readonly to: SinkName
  readonly count: number
  readonly make: (number: number) => { readonly id: string; readonly body: string }
  /** Counts arrivals, if not by the id of each event at its sink. */
  readonly arrived?: (stage: Stage) => number
}

const flood = ({ name, to, count, make, arrived }: Flood): FloodScene => ({
  name,
  to,
  run: async (stage) => {
    const broken: Array<string> = []
    let acknowledged = 0
    const ids = new Set<string>()
    const before = stage.at(to).length
    await inTurns(Array(count).keys(), 16, async (number) => {
      const { id, body } = make(number)
      const status = await stage.send(body)
      if (status !== 202) broken.push(`answered ${status ?? "nothing"}`)
      else acknowledged += 1
      ids.add(id)
      if (number % 100 === 0) await honestPasses(stage, to, broken)
    })
    const all = arrived ?? ((stage: Stage) => stage.at(to).length - before)
    await eventually(() => all(stage) >= count, 30, 100)
    const missing = Math.max(0, count - all(stage))
    if (missing > 0) broken.push(`${missing} of ${count} did not come to ${to}`)
    return { acknowledged, lost: missing, broken: [...new Set(broken)] }
  },
})

const honestPasses = async (stage: Stage, to: SinkName, broken: Array<string>): Promise<void> => {
  const { id, body } = stage.honest(to)
  if ((await stage.send(body)) !== 202) broken.push("an honest event meanwhile was refused")
  else if (!(await eventually(() => stage.times("steady", body) > 0, 10))) {
    broken.push(`the honest event ${id} meanwhile did not come to the other sink`)
  }
}

/** Sums the counts of the digests whose group starts with `prefix`. */
const told = (prefix: string) => (stage: Stage) => {
  let sum = 0
  for (const { body } of stage.at("digest")) {
    const { count, group } = JSON.parse(Buffer.from(body).toString("utf8")) as { count: number; group: string }
    if (`${group}`.startsWith(prefix)) sum += Number(count)
  }
  return sum
}

export const cases: ReadonlyArray<FloodScene> = [
  flood({
    name: "500 digests at once",
    to: "digest",
    count: 500,
    make: (n) => event("digest", `{"group":"flood-${n}"}`),
    arrived: told("flood-"),
  }),
  flood({
    name: "one digest of 1,000 events",
    to: "digest",
    count: 1_000,
    make: () => event("digest", '{"group":"one"}'),
    arrived: told("one"),
  }),
  flood({ name: "2,000 order keys", to: "keyed", count: 2_000, make: (n) => event("keyed", `{"key":"flood-${n}"}`) }),
  flood({ name: "500 events of one order key", to: "keyed", count: 500, make: () => event("keyed", '{"key":"hot"}') }),
  flood({
    name: "1,000 bodies under one id",
    to: "cloud",
    count: 1_000,
    make: (n) => event("cloud", `{"n":${n}}`, { id: "evtBadmany" }),
  }),
  flood({
    name: "500 types of 200 characters",
    to: "cloud",
    count: 500,
    make: (n) => event("cloud", "{}", { type: `t${n}.${"x".repeat(190)}` }),
  }),
]
