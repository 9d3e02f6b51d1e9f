import { expect, test } from "bun:test"
import { Effect } from "effect"
import { makeRestarts, mismatch } from "../../../src/cli/support/lifecycle.ts"
import { Notify } from "../../../src/runtime/Notify.ts"
import { refusal, type Situation } from "../../../src/runtime/ProcessHandover.ts"
import { relayConfig } from "../../lib/activeConfig.ts"
import { it } from "../../lib/effect.ts"

const facts = {
  addresses: { listen: "http://127.0.0.1:8080", "admin.listen": "http://127.0.0.1:9080" },
  ports: { listen: 8080, "admin.listen": 9080 },
  journal: "sqlite ./data/journal.db",
  schema: 3,
  pid: 20,
  turn: { instance: "second", ended: ["first"] },
}

test("a second process takes over with the same addresses and journal, and the same schema or a newer one", () => {
  expect(mismatch(facts, facts)).toBeUndefined()
  expect(mismatch(facts, { ...facts, schema: 4 })).toBeUndefined()
})

test("another address, another journal or an older schema is refused with the reason", () => {
  const addresses = { ...facts.addresses, "admin.listen": "http://127.0.0.1:9081" }
  expect(mismatch(facts, { ...facts, addresses })).toBe(
    '"admin.listen" of the config is http://127.0.0.1:9081, and the relay listens at http://127.0.0.1:9080: stop the relay and start it again',
  )
  expect(mismatch(facts, { ...facts, journal: "sqlite other.db" })).toContain("names another journal")
  expect(mismatch(facts, { ...facts, schema: 2 })).toContain("older than the journal's schema (2 and 3)")
})

test("a restart is refused if the end of the first process would end the service", () => {
  const usual: Situation = { pid: 20, parent: 10, runtime: "bun", isHeard: false }
  expect(refusal(usual)).toBeUndefined()
  expect(refusal({ ...usual, parent: 1, isHeard: true })).toBeUndefined()
  expect(refusal({ ...usual, parent: 1 })).toContain("process 1 started the relay")
  expect(refusal({ ...usual, pid: 1, parent: 0 })).toContain("process 1 of its container")
  expect(refusal({ ...usual, runtime: "deno" })).toContain("runs on Deno")
})

/** A relay that took this many milliseconds to start. */
const started = Effect.fnUntraced(function* (took: number, isHeard: boolean) {
  const begun = { count: 0, mistake: "" }
  const restarts = yield* makeRestarts({
    check: Effect.suspend(() => (begun.mistake === "" ? Effect.void : Effect.fail({ message: begun.mistake }))),
    startAgain: Effect.sync(() => {
      begun.count += 1
    }),
  }).pipe(Effect.provideService(Notify, { say: () => Effect.void, reloading: Effect.void, isHeard }))
  yield* restarts.opened(relayConfig(), took)
  return { ...restarts.restart, begun }
})

it.effect(
  "a relay that takes over 5 seconds to start is stopped for its service manager, if its config loads",
  function* () {
    const { begin, status, begun } = yield* started(5_001, true)
    expect(yield* status).toEqual({ pid: process.pid, stops: 5_001 })
    begun.mistake = "relay.config.json: no such file"
    expect(yield* Effect.flip(begin)).toMatchObject({ message: begun.mistake })
    expect(begun.count).toBe(0)
    begun.mistake = ""
    expect(yield* begin).toBe(process.pid)
    expect(begun.count).toBe(1)
    expect(yield* Effect.flip(begin)).toMatchObject({ message: "a restart is under way" })
  },
)

it.effect("a relay that takes more than 5 seconds to start is not stopped without a service manager", function* () {
  const { begin, status, begun } = yield* started(5_001, false)
  expect(yield* status).toEqual({ pid: process.pid })
  expect(yield* Effect.flip(begin)).toMatchObject({
    message: "the relay took 5 s to start, and deliveries wait for 5s at most: stop the relay and start it again",
  })
  expect(begun.count).toBe(0)
})

it.effect("a relay that takes 5 seconds to start hands over", function* () {
  const { status } = yield* started(5_000, true)
  expect(yield* status).toEqual({ pid: process.pid })
})
