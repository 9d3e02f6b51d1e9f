import { expect } from "bun:test"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { checkSinks, type SinkCheck, typesBySink } from "../../../src/cli/reports/checkSinks.ts"
import { Program } from "../../../src/cli/support/Program.ts"
import { load } from "../../../src/config/load/Load.ts"
import { journalTypes } from "../../../src/journal/Journals.ts"
import { possibleValues } from "../../../src/sinks/MessageKeys.ts"
import { sinkTypes } from "../../../src/sinks/SinkTypes.ts"
import { readFile } from "../../config/fixture.ts"
import { it } from "../../lib/effect.ts"
import { serve } from "../../sinks/receiver.ts"

const program = Program.of({ entry: new URL(import.meta.url), env: {}, command: "relay" })
const file = "relay.config.json"

const configOf = (sinks: object) =>
  Effect.map(
    load(file, {
      sinkTypes,
      journalTypes,
      env: {},
      readFile: readFile({
        [file]: JSON.stringify({
          webhooks: { scheduling: { path: "/", secrets: [{ name: "a", value: "b" }] } },
          sinks,
          routes: [{ name: "everything", match: "**", to: Object.keys(sinks) }],
        }),
      }),
    }),
    ({ config }) => config,
  )

it.effect("a sink that never answers its check is reported after ten seconds, and delays no other sink", () =>
  Effect.gen(function* () {
    let asked = 0
    const silent = yield* serve(() => void asked++)
    const away = Array.from({ length: 20 }, (_, n) => [`away-${n}`, { type: "http", url: `${silent.url}/${n}` }])
    const config = yield* configOf({ ...Object.fromEntries(away), well: { type: "console" } })
    const reaching = yield* Effect.forkChild(checkSinks(config), { startImmediately: true })
    // All sinks are checked before any time has passed.
    while (asked < away.length) yield* Effect.promise(() => Bun.sleep(1))
    yield* TestClock.adjust("10 seconds")
    const reached: ReadonlyArray<SinkCheck> = yield* Fiber.join(reaching)
    expect(reached.filter(({ ok }) => ok).map(({ sink }) => sink)).toEqual(["well"])
    expect(new Set(reached.filter(({ ok }) => !ok).map(({ message }) => message))).toEqual(
      new Set(["no answer within 10s"]),
    )
  }).pipe(Effect.provideService(Program, program), Effect.orDie),
)

it.effect("a sink is advised about the event types that its routes match, and no others", function* () {
  const config = yield* configOf({ lake: { type: "console" }, idle: { type: "console" } })
  const routes = [
    { name: "clients", match: ["client.*"], except: ["client.deleted"], where: {}, to: ["lake"] },
    { name: "some", match: ["block.created"], where: { "/account_id": ["acct_1"] }, except: [], to: ["lake"] },
  ]
  const types = typesBySink({ ...config, routes })
  expect(types.get("lake")?.toSorted()).toEqual(["block.created", "client.created", "client.updated"])
  expect(types.get("idle")).toEqual([])
  expect(possibleValues("events.{{resource}}", types.get("lake")).toSorted()).toEqual(["events.block", "events.client"])
})
