import { describe, expect, test } from "bun:test"
import { fleetOf, withOthers } from "../../src/admin/status/RelayStatus.ts"
import type { Lane } from "../../src/admin/status/Status.ts"
import type { FleetStatus } from "../../src/journal/FleetStatus.ts"

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
  test("a sink's backlog, retries and dead letters are the sums over the streams of all relays", () => {
    const [lake] = withOthers([lane("lake", { backlog: 100, retrying: 1, deadLetters: 2 })], fleet)
    expect(lake).toMatchObject({ name: "lake", condition: "running", backlog: 115, retrying: 3, deadLetters: 6 })
  })

  test("a sink that only other relays have is listed with their reports", () => {
    const listed = withOthers([lane("renamed", { condition: "orphaned", type: "" })], fleet)
    expect(listed).toMatchObject([
      { name: "renamed", message: "its sink is in the config of b, not here" },
      { name: "lake", condition: "orphaned", backlog: 115 },
      { name: "theirs", type: "http", condition: "running", backlog: 7 },
    ])
  })

  test("each relay has its streams and their backlogs, and a stream without a relay is named", () => {
    expect(fleetOf(fleet)).toMatchObject({
      relays: [
        { name: "a", isSelf: true, streams: [0], shared: false, waiting: 100 },
        { name: "b", isSelf: false, streams: [1, 2], shared: true, waiting: 22 },
      ],
      unowned: [3],
    })
  })

  test("a sink has its worst condition at any relay, with the relay's name; reports of relays without streams don't count", () => {
    const stalled = { ...running("lake"), condition: "stalled", message: "since noon" } as const
    const at = (relay: string) =>
      withOthers([lane("lake")], {
        ...fleet,
        members: [member("a", { isSelf: true }), member(relay, { lanes: [stalled] })],
      })
    expect(at("b")[0]).toMatchObject({ condition: "stalled", message: "at b: since noon" })
    expect(at("gone")[0]).toMatchObject({ condition: "running", message: "" })
    const own = lane("lake", { condition: "failed", message: "a bug" })
    expect(withOthers([own], fleet)[0]).toMatchObject({ condition: "failed", message: "a bug" })
  })

  test("the reports of relays are read as often per sink with a thousand sinks as with ten", () => {
    const looks = (sinks: number) => {
      let count = 0
      const report = (name: string) => ({
        ...running(name),
        get name() {
          count += 1
          return name
        },
      })
      const names = Array.from({ length: sinks }, (_, n) => `sink_${n}`)
      const members = ["b", "c", "d"].map((name) => member(name, { lanes: names.map(report) }))
      expect(
        withOthers(
          names.map((name) => lane(name)),
          { ...fleet, members },
        ),
      ).toHaveLength(sinks + 2)
      return count / sinks
    }
    expect(looks(1_000)).toBe(looks(10))
  })

  test("the oldest event is the oldest of all relays", () => {
    const told = (oldestAt: number) => ({
      ...fleet,
      members: [member("b", { lanes: [{ ...running("lake"), oldestAt }] })],
    })
    const oldest = (own: number, theirs: number) =>
      withOthers([lane("lake", { oldestAt: own })], told(theirs))[0]?.oldestAt
    expect([oldest(5, 3), oldest(3, 5), oldest(0, 5), oldest(5, 0), oldest(0, 0)]).toEqual([3, 3, 5, 5, 0])
  })

  test("events that wait in a stream that no relay has taken over are stalled", () => {
    const since = (unownedFor: number) =>
      withOthers([lane("lake")], {
        ...fleet,
        streams: [{ ...held, id: 3, isShared: false, lanes: { lake: counts(1) }, unownedFor }],
      })
    expect(since(10_000)[0]?.condition).toBe("running")
    expect(since(20_000)[0]).toMatchObject({
      condition: "stalled",
      message: "no relay has taken over the stream 3, in which events wait",
    })
  })
})
