/**
 * Compares a journal that keeps many events with a journal that keeps few: the search for one event, and the start.
 * Other scenarios compare the cost of ingest.
 */
import { Effect } from "effect"
import { BenchError } from "./BenchError.ts"
import * as Fill from "./Fill.ts"
import * as Paced from "./Paced.ts"
import * as Report from "./Report.ts"
import * as Rounds from "./Rounds.ts"
import * as Target from "./Target.ts"
import { atMost } from "./Verdicts.ts"

interface Journal {
  readonly name: string
  readonly path: string
  readonly events: number
  readonly idOf: (number: number) => string
}

type Journals = Readonly<Record<"empty" | "full", Journal>>

/** Events of a journal that is nearly empty. There are enough to search for a different event each time. */
const few = 64
/** Searches in each round. */
const looks = 20

const filled = Effect.fnUntraced(function* (setup: Target.Setup, name: string, events: number) {
  const path = Target.journalPath(Target.relayDirectory(setup, name))
  const idOf = yield* Fill.run(path, { events, lane: "file", isDelivered: true })
  const journal: Journal = { name, path, events, idOf }
  return journal
})

export const fill = Effect.fnUntraced(function* (setup: Target.Setup & { readonly kept: number }) {
  const empty = yield* filled(setup, "empty journal", few)
  const full = yield* filled(setup, `${setup.kept.toLocaleString("en")} kept`, setup.kept)
  const journals: Journals = { empty, full }
  return journals
})

/** The default `maxSize` is smaller, so it would prune the oldest events. */
const relay = (setup: Target.Setup, { name, path }: Journal) =>
  Target.relayToFile(setup, name, undefined, { type: "sqlite", path, maxSize: "1 TiB" })

export const relays = (setup: Target.Setup, { empty, full }: Journals) =>
  Effect.all({ empty: relay(setup, empty), full: relay(setup, full) })

const showing = (title: string, rows: ReadonlyArray<readonly [Journal, ReadonlyArray<number>]>) =>
  Effect.sync(() =>
    process.stdout.write(
      Report.titled(title, [
        ["median [min..max]", "ms"],
        ...rows.map(([{ name }, values]) => [name, Report.show(Rounds.spread(values), 1)]),
      ]),
    ),
  )

const ratios = (of: ReadonlyArray<number>, base: ReadonlyArray<number>): Rounds.Spread =>
  Rounds.spread(of.map((value, index) => value / (base[index] ?? Number.NaN)))

/**
 * Measures how long a relay takes for the report of one event, as `relay explain ID` requests it. Each time it is
 * another event.
 */
export const explain = Effect.fnUntraced(function* (
  { rounds }: { readonly rounds: number },
  { empty, full }: Journals,
  relays: Readonly<Record<keyof Journals, Target.Relay>>,
) {
  const times = { empty: [] as number[], full: [] as number[] }
  const look = Effect.fnUntraced(function* ({ adminPort }: Target.Relay, { idOf, events }: Journal, share: number) {
    const id = idOf(Math.floor(share * events))
    const started = performance.now()
    const found = yield* Effect.promise(async () => {
      const response = await fetch(`http://127.0.0.1:${adminPort}/api/v1/events/${id}`)
      return response.ok && (await response.text()).includes(id)
    })
    if (!found) return yield* new BenchError({ message: `${id} is not found in the journal` })
    return performance.now() - started
  })
  for (let n = 0; n < rounds * looks; n++) {
    const share = n / (rounds * looks)
    times.empty.push(yield* look(relays.empty, empty, share))
    times.full.push(yield* look(relays.full, full, share))
  }
  yield* showing("The report of one event", [
    [empty, times.empty],
    [full, times.full],
  ])
  return [atMost(`${full.name}: time of a report of an empty journal's`, 1.1, ratios(times.full, times.empty))]
})

/** How long from the start of the process to the first delivery that is accepted. */
export const restart = Effect.fnUntraced(function* (
  setup: Target.Setup & { readonly rounds: number },
  { empty, full }: Journals,
) {
  const times = { empty: [] as number[], full: [] as number[] }
  const once = Effect.fnUntraced(function* (journal: Journal) {
    const started = performance.now()
    const { port } = yield* relay(setup, journal)
    const { refused } = yield* Paced.paced(port, { rate: 1, seconds: 1 })
    if (refused > 0) return yield* new BenchError({ message: `${journal.name}: the first delivery is refused` })
    return performance.now() - started
  }, Effect.scoped)
  for (let round = 0; round < setup.rounds; round++) {
    times.empty.push(yield* once(empty))
    times.full.push(yield* once(full))
  }
  yield* showing("From the start of the process to the first 202", [
    [empty, times.empty],
    [full, times.full],
  ])
  const { median } = Rounds.spread(times.full)
  return [
    {
      requirement: `${full.name}: from the start to the first 202 ≤ 1 s`,
      measured: `${Report.show(Rounds.spread(times.full), 0)} ms`,
      ok: median <= 1_000,
    },
  ]
})
