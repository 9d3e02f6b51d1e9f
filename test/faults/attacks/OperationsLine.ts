/**
 * Unlucky operations: configs that change, sinks that go, processes that end at
 * each step, people who do two things at once, files that become something else.
 */
import { isEnough, type Line, type Options, type Outcome } from "../Line.ts"
import { inTurns } from "./Attack.ts"
import * as Ends from "./operations/Ends.ts"
import * as Files from "./operations/Files.ts"
import * as Names from "./operations/Names.ts"
import * as Oddities from "./operations/Oddities.ts"
import * as People from "./operations/People.ts"
import * as Settings from "./operations/Settings.ts"
import { type Case, Play } from "./Play.ts"

const all: ReadonlyArray<Case> = [
  ...Names.cases,
  ...Settings.cases,
  ...Ends.cases,
  ...People.cases,
  ...Oddities.cases,
  ...Files.cases,
]

/** Relays at once. */
const atOnce = 4
/** Seconds that a case may take. A case that hangs fails, and the campaign goes on. */
const deadline = 90

const run = async (options: Options): Promise<Outcome> => {
  const broken: Array<string> = []
  let acknowledged = 0
  let lost = 0
  // Part of a case's name, to debug that case alone.
  const only = process.env.RELAY_ATTACK
  const cases = only === undefined ? all : all.filter(({ name }) => name.includes(only))
  await inTurns(cases, atOnce, async ({ name, meanwhile, run }) => {
    if (isEnough(options, broken.length)) return
    const play = await Play.make(options)
    const late = Bun.sleep(deadline * 1_000).then(() => play.broken.push(`not over after ${deadline} s`))
    const done = run(play).catch((error: unknown) =>
      play.broken.push(`${error instanceof Error ? error.message : error}`),
    )
    await Promise.race([done, late])
    await play.finish()
    acknowledged += play.acknowledged.length
    lost += play.lost
    if (play.broken.length > 0) broken.push(`${name} (meanwhile: ${meanwhile}): ${play.broken.join("; ")}`)
  })
  return { rounds: cases.length, acknowledged, lost, duplicates: 0, broken, notes: [`${cases.length} cases`] }
}

export const operations: Line = { name: "attacks-operations", fault: "unlucky operations, one after the other", run }
