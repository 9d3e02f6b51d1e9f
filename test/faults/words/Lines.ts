/** Compares the relay's statements with the facts. */
import type { Event } from "../../../src/admin/api/EventApi.ts"
import type { Replay } from "../../../src/admin/replay/ReplayReport.ts"
import type { Lane, RelayHistory, Status } from "../../../src/admin/status/Status.ts"
import type { Line, Options } from "../Line.ts"
import { eventually } from "../relay/Subject.ts"
import { mutants } from "./Mutants.ts"
import { early, outcomes, search, searched } from "./Outcomes.ts"
import {
  alerts,
  deadLetters,
  files,
  history,
  lanes,
  log,
  metrics,
  parsed,
  replays,
  Statements,
  status,
} from "./Statements.ts"
import { World } from "./World.ts"

/** Seconds within which a state must be reported. */
const within = 8

const get = async <A>(world: World, path: string): Promise<A> =>
  JSON.parse(await world.subject.ask(`/api/v1${path}`)) as A

const run = async <A>(world: World, ...words: ReadonlyArray<string>): Promise<A> =>
  JSON.parse((await world.subject.run(...words, "--json")).said) as A

interface Page {
  readonly events: ReadonlyArray<Event>
  readonly next?: string
}

/** Reads all pages of a search. On a slow machine a page ends before the limit, because its time is up. */
const pages = async (read: (before: ReadonlyArray<string>) => Promise<Page>): Promise<ReadonlyArray<Event>> => {
  const events: Array<Event> = []
  for (let before: ReadonlyArray<string> = []; ; ) {
    const page = await read(before)
    events.push(...page.events)
    if (page.next === undefined) return events
    before = [page.next]
  }
}

const found = (world: World, query = ""): Promise<ReadonlyArray<Event>> =>
  pages(([before]) => get(world, `/events?limit=1000${query}${before === undefined ? "" : `&before=${before}`}`))

const printed = (world: World, ...words: ReadonlyArray<string>): Promise<ReadonlyArray<Event>> =>
  pages((before) =>
    run(world, "events", "--limit", "1000", ...words, ...before.flatMap((place) => ["--before", place])),
  )

/** Number of commands to compare, one each time. */
const commands = 8

/** Compares everything that takes only a request. `by` selects a command to compare as well. */
const compared = async (world: World, by: number): Promise<Statements> => {
  const say = new Statements(world)
  status(say, await get<Status>(world, "/status"))
  const series = parsed(await world.subject.ask("/metrics"))
  metrics(say, series)
  alerts(say, series)
  history(say, await get<RelayHistory>(world, "/history"))
  outcomes(say, "events", world.accepted, await found(world))
  for (const outcome of searched) search(say, outcome, await found(world, `&outcome=${outcome}`))
  const explained = world.accepted[Math.floor((by / commands) * world.accepted.length)] ?? 0
  if (world.accepted.length > 0) {
    outcomes(say, "explain", [explained], (await get<Page>(world, `/events/evt_${explained}`)).events)
  }
  for (const place of world.places.filter(({ isInConfig }) => isInConfig)) {
    deadLetters(say, place, await get(world, `/dead-letters?limit=1000&sink=${place.name}`))
  }
  replays(say, await get<ReadonlyArray<Replay>>(world, "/replays"))
  log(say)
  files(say)
  if (say.untrue.length > 0) return say
  if (by === 0) lanes(say, "relay status", (await run<Status>(world, "status")).lanes)
  if (by === 1) lanes(say, "relay lanes list", await run<ReadonlyArray<Lane>>(world, "lanes", "list"))
  if (by === 2) table(say, (await world.subject.run("lanes", "list")).said)
  if (by === 3) lanes(say, "status --json", (await run<Status>(world, "status")).lanes)
  if (by > 3) await commanded(say, by, explained)
  return say
}

/** The commands that report events. */
const commanded = async (say: Statements, by: number, explained: number): Promise<void> => {
  const { world } = say
  if (by === 4) {
    outcomes(say, "relay events", world.accepted, await printed(world))
  }
  if (by === 5) {
    outcomes(say, "relay explain", [explained], (await run<Page>(world, "explain", `evt_${explained}`)).events)
  }
  if (by === 6) {
    const [place] = world.places.filter(({ isInConfig }) => isInConfig)
    if (place !== undefined) deadLetters(say, place, await run(world, "dlq", "list", "--sink", place.name))
  }
  if (by === 7) {
    const outcome = searched[explained % searched.length] ?? "dead"
    search(say, outcome, await printed(world, "--outcome", outcome))
  }
}

/** The table that a person reads. */
const table = (say: Statements, text: string): void => {
  const rows = text.split("\n").map((row) => row.trim().split(/ {2,}/))
  const names = rows.find(([name]) => name === "SINK") ?? []
  for (const place of say.world.places.filter(({ isInConfig }) => isInConfig)) {
    const row = rows.find(([name]) => name === place.name) ?? []
    say.is(`the table, backlog of ${place.name}`, row[names.indexOf("BACKLOG")], String(place.owed))
    const dead = row[names.indexOf("DEAD LETTERS")]
    say.is(`the table, dead letters of ${place.name}`, dead, String(place.deadLetters.length))
  }
}

const sinksWait = (world: World) => world.places.filter((place) => place.passes && place.owed > 0)

interface Told {
  readonly statements: number
  readonly untrue: ReadonlyArray<string>
}

const told = async (world: World, steps: ReadonlyArray<string>): Promise<Told> => {
  const before = new Statements(world)
  early(before, await found(world))
  const arrived = await eventually(() => sinksWait(world).length === 0, 30)
  const late = arrived
    ? []
    : sinksWait(world).map((place) => `never came to ${place.name}: ${place.missing.join(", ")}`)
  const by = Math.floor(world.random() * commands)
  let last = new Statements(world)
  await eventually(
    async () => {
      last = await compared(world, by)
      return last.untrue.length === 0
    },
    arrived ? within : 0,
    50,
  )
  const untrue = [...before.untrue, ...late, ...last.untrue]
  const after = steps.slice(-4).join(", ")
  return { statements: before.count + last.count, untrue: untrue.map((one) => `${one} (after ${after})`) }
}

const step = (world: World, round: number): Promise<string> => {
  if (round === 1) return world.refuse()
  if (round === 2) return world.moveReplay()
  return round === 5 ? world.erase() : world.step()
}

const life = async (options: Options, seed: number, rounds: number) => {
  const world = await World.make(options, seed)
  const steps: Array<string> = []
  let statements = 0
  let untrue: ReadonlyArray<string> = []
  for (let round = 0; round < rounds && untrue.length === 0; round++) {
    if (round === rounds - 1) await world.mend()
    else if (round > 0) steps.push(await step(world, round))
    await world.send()
    const found = await told(world, steps)
    statements += found.statements
    untrue = found.untrue
  }
  await world.end()
  if (untrue.length === 0) world.subject.remove()
  return { world, statements, untrue: untrue.map((one) => `seed ${seed}: ${one}`) }
}

const words: Line = {
  name: "words",
  fault: "everything it says, against what happened",
  run: async (options) => {
    const seeds = options.long ? 30 : 2
    const rounds = options.long ? 40 : 12
    let acknowledged = 0
    let statements = 0
    const broken: Array<string> = []
    for (let index = 0; index < seeds && broken.length === 0; index++) {
      const found = await life(options, options.seed + index, rounds)
      acknowledged += found.world.accepted.length
      statements += found.statements
      broken.push(...found.untrue.slice(0, 10))
    }
    const notes = [`${seeds} seeds, ${statements} statements compared, ${broken.length} false`]
    return { rounds: seeds * rounds, acknowledged, lost: 0, duplicates: 0, broken, notes }
  },
}

export const lines: ReadonlyArray<Line> = [words]
export { mutants }
