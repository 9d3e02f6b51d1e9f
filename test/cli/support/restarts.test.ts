import { expect, test } from "bun:test"
import { mismatch } from "../../../src/cli/support/restarts.ts"
import { refusal, type Situation } from "../../../src/runtime/ProcessHandover.ts"

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

test("a restart is refused where the end of the first process would end the service", () => {
  const usual: Situation = { pid: 20, parent: 10, runtime: "bun", isHeard: false }
  expect(refusal(usual)).toBeUndefined()
  expect(refusal({ ...usual, parent: 1, isHeard: true })).toBeUndefined()
  expect(refusal({ ...usual, parent: 1 })).toContain("process 1 started the relay")
  expect(refusal({ ...usual, pid: 1, parent: 0 })).toContain("process 1 of its container")
  expect(refusal({ ...usual, runtime: "deno" })).toContain("runs on Deno")
})
