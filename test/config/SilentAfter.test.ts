/** When a sender counts as silent: by duration, and by the hours that count. */
import { describe, expect, test } from "bun:test"
import { Duration } from "effect"
import { type SilentAfter, silentAt } from "../../src/config/Config.ts"

const at = (time: string): number => Date.parse(time)
const silent = (since: string, silentAfter: SilentAfter): string =>
  new Date(silentAt(at(since), silentAfter)).toISOString().replace(".000", "")

const berlin = (from: number, to: number, duration: Duration.Input): SilentAfter => ({
  duration: Duration.fromInputUnsafe(duration),
  within: { hours: { from: from * 60, to: to * 60 }, timeZone: "Europe/Berlin" },
})

describe("a sender is silent", () => {
  test("after the duration, where all hours count", () => {
    expect(silent("2026-11-27T22:00:00Z", { duration: Duration.hours(3) })).toBe("2026-11-28T01:00:00Z")
  })

  test("after the time within the hours of the time zone that adds up to the duration", () => {
    const twoHours = berlin(8, 18, "2 hours")
    // Berlin is at UTC+1 in November.
    expect(silent("2026-11-27T09:00:00Z", twoHours)).toBe("2026-11-27T11:00:00Z")
    expect(silent("2026-11-27T16:00:00Z", twoHours)).toBe("2026-11-28T08:00:00Z")
    expect(silent("2026-11-27T22:00:00Z", twoHours)).toBe("2026-11-28T09:00:00Z")
    expect(silent("2026-11-27T03:00:00Z", berlin(8, 18, "25 hours"))).toBe("2026-11-29T12:00:00Z")
  })

  test("with hours that end on the next day", () => {
    const night = berlin(22, 6, "3 hours")
    expect(silent("2026-11-27T12:00:00Z", night)).toBe("2026-11-28T00:00:00Z")
    expect(silent("2026-11-28T03:00:00Z", night)).toBe("2026-11-28T22:00:00Z")
    expect(silent("2026-11-27T12:00:00Z", berlin(22, 24, "3 hours"))).toBe("2026-11-28T22:00:00Z")
  })

  test("with hours of the wall clock, also when daylight saving time begins and ends", () => {
    // On 29 March the clock goes from 2:00 to 3:00, on 25 October from 3:00 to 2:00.
    expect(silent("2026-03-28T17:00:00Z", berlin(8, 18, "2 hours"))).toBe("2026-03-29T08:00:00Z")
    expect(silent("2026-10-24T16:00:00Z", berlin(8, 18, "2 hours"))).toBe("2026-10-25T09:00:00Z")
    expect(silent("2026-03-28T20:00:00Z", berlin(0, 6, "5 hours"))).toBe("2026-03-29T04:00:00Z")
    expect(silent("2026-03-28T20:00:00Z", berlin(0, 6, "6 hours"))).toBe("2026-03-29T23:00:00Z")
    expect(silent("2026-10-24T20:00:00Z", berlin(0, 6, "7 hours"))).toBe("2026-10-25T05:00:00Z")
    expect(silent("2026-03-28T20:00:00Z", berlin(2, 3, "30 minutes"))).toBe("2026-03-30T00:30:00Z")
  })

  test("in any time zone of the runtime", () => {
    const kiritimati = { hours: { from: 0, to: 60 }, timeZone: "Pacific/Kiritimati" }
    expect(silent("2026-11-27T12:00:00Z", { duration: Duration.minutes(30), within: kiritimati })).toBe(
      "2026-11-28T10:30:00Z",
    )
  })
})
