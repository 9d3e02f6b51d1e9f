import { describe, expect, test } from "bun:test"
import type { Lane } from "../../src/admin/Api.ts"
import { hashOf } from "../../src/admin/ConfigHash.ts"
import { fleetOf, withOthers } from "../../src/admin/FleetReports.ts"
import type { FleetStatus } from "../../src/journal/FleetStatus.ts"
import { relayConfig } from "../lib/activeConfig.ts"

const lane = (name: string, more: Partial<Lane> = {}): Lane => ({
  ...{ name, type: "file", condition: "running", message: "" },
  ...{ backlog: 0, retrying: 0, deadLetters: 0, oldestAt: 0 },
  ...more,
})
const counts = (backlog: number) => ({ backlog, retrying: 1, deadLetters: 2 })
const running = (name: string) => ({ name, type: "http", condition: "running", message: "", oldestAt: 0 }) as const
const member = (name: string, more: Partial<FleetStatus["members"][number]> = {}) => ({
  name,
  isSelf: false,
  version: "1",
  configHash: "aa",
  address: "h:1",
  age: 100,
  lanes: [],
  ...more,
})

const held = { accepted: 0, kept: 0, bytes: 0 }
const fleet: FleetStatus = {
  members: [member("a", { isSelf: true }), member("b", { lanes: [running("theirs"), running("renamed")] })],
  streams: [
    { ...held, id: 0, owner: "a", isShared: false, lanes: { lake: counts(100) } },
    { ...held, id: 1, owner: "b", isShared: true, lanes: { lake: counts(5), theirs: counts(7) } },
    { ...held, id: 2, owner: "b", isShared: false, lanes: { lake: counts(10) } },
    { ...held, id: 3, isShared: false, lanes: {} },
  ],
  counters: { takeovers: 0, fenced: 0 },
  owned: 1,
  ownedBytes: 0,
  beatAge: 0,
}

describe("relays on one journal", () => {
  test("a sink's backlog, retries and dead letters are those of all relays' streams", () => {
    const [lake] = withOthers([lane("lake", { backlog: 100, retrying: 1, deadLetters: 2 })], fleet)
    expect(lake).toMatchObject({ name: "lake", condition: "running", backlog: 115, retrying: 3, deadLetters: 6 })
  })

  test("a sink that only others have is listed with what they say of it", () => {
    const listed = withOthers([lane("renamed", { condition: "orphaned", type: "" })], fleet)
    expect(listed).toMatchObject([
      { name: "renamed", message: "its sink is in the config of b, not here" },
      { name: "lake", condition: "orphaned", backlog: 115 },
      { name: "theirs", type: "http", condition: "running", backlog: 7 },
    ])
  })

  test("each relay has its streams, and what waits in them; a stream between two relays is named", () => {
    expect(fleetOf(fleet)).toMatchObject({
      relays: [
        { name: "a", isSelf: true, streams: [0], shared: false, waiting: 100 },
        { name: "b", isSelf: false, streams: [1, 2], shared: true, waiting: 22 },
      ],
      unowned: [3],
    })
  })

  test("configs are the same that differ only in what each relay has of its own", () => {
    const config = relayConfig({ routes: [] })
    const elsewhere = relayConfig({ routes: [], listen: { host: "10.0.0.2", port: 1 } })
    expect(hashOf(elsewhere)).toBe(hashOf(config))
    expect(
      hashOf(
        relayConfig({
          routes: [],
          sinks: [],
          webhooks: [...config.webhooks, ...config.webhooks, { name: "more" } as never],
        }),
      ),
    ).not.toBe(hashOf(config))
  })
})
