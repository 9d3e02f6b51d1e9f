/** The transitions of an alert as a table: its state and an event give its next state, and whether the event is a message. */
import { describe, expect, test } from "bun:test"
import { Duration } from "effect"
import type { ChangesPolicy } from "../../../src/config/Config.ts"
import {
  type AlertState,
  Alerts,
  alertKey,
  dueAt,
  keptFor,
  maxAlerts,
  next,
  remindsAt,
  type Signal,
} from "../../../src/delivery/lane/Alerts.ts"
import { quietKey } from "../../../src/delivery/lane/Queue.ts"
import { ownEvent, ownOf } from "../../../src/delivery/RelayEvents.ts"
import { entry } from "../../sinks/samples.ts"

const minute = 60_000
const policy: ChangesPolicy = {
  sends: "changes",
  resolves: true,
  after: { count: 3, within: Duration.minutes(10) },
  repeat: Duration.hours(4),
  resolveAfter: Duration.hours(24),
}

/** Returns the state after failures at these minutes, with sequences from 1. */
const after = (...minutes: ReadonlyArray<number>): AlertState => {
  const states = minutes.reduce<AlertState | undefined>(
    (state, at, index) => next(policy, state, failure(index + 1, at)).state,
    undefined,
  )
  if (states === undefined) throw new Error("no failure")
  return states
}

const failure = (sequence: number, at: number): Signal => ({
  ...{ is: "failure", sequence, at: at * minute },
  type: "connected_account.refresh_failed",
})
const recovery = (at: number): Signal => ({ is: "recovery", sequence: 9, at: at * minute })
const own = (
  is: "update" | "reminder" | "expiry" | "unmuting" | "acknowledgement" | "resolution" | "mute",
  at: number,
  alert: number,
  message: number,
  until?: number,
): Signal => ({
  ...{ is, sequence: 9, at: at * minute, alert, message },
  ...(until !== undefined && { until: until * minute }),
})

/** Returns the state after more signals. */
const then = (state: AlertState | undefined, ...signals: ReadonlyArray<Signal>): AlertState | undefined =>
  signals.reduce((before, signal) => next(policy, before, signal).state, state)

const pending = after(0, 1)
const firing = after(0, 1, 2)
const reminded = next(policy, firing, own("reminder", 242, 1, 1)).state
const acknowledged = next(policy, firing, own("acknowledgement", 3, 1, 1)).state
const resolved = next(policy, firing, recovery(5)).state

const mute = own("mute", 4, 1, 1, 60)
const unmuting = own("unmuting", 60, 1, 1, 60)
const muted = then(firing, mute)

type Row = readonly [state: AlertState | undefined, signal: Signal, expected: string]

/**
 * The expected result: whether the event is a message or counted, and in which alert; the status; the number of
 * failures.
 */
const transitions: Readonly<Record<string, Row>> = {
  "a first failure begins an alert, which is pending": [undefined, failure(1, 0), "counted in 1, pending, 1"],
  "failures below `after` are counted": [after(0), failure(2, 1), "counted in 1, pending, 2"],
  "the failure that reaches `after` is the message": [pending, failure(3, 2), "message of 1, firing, 3"],
  "failures that are too old don't count towards `after`": [pending, failure(3, 10.5), "counted in 1, pending, 3"],
  "a failure after a time without any begins another alert": [pending, failure(7, 30), "counted in 7, pending, 1"],
  "a recovery before `after` is reached ends the alert without a message": [pending, recovery(3), "counted in 1, none"],
  "failures of a firing alert are counted": [firing, failure(8, 3), "counted in 1, firing, 4"],
  "a recovery of a firing alert is a message": [firing, recovery(3), "message of 1, resolved, 3"],
  "a second recovery is counted": [resolved, recovery(6), "counted in 1, resolved, 3"],
  "a recovery without a known failure is a message": [undefined, recovery(3), "message of 9, none"],
  "a failure after the recovery begins another alert": [resolved, failure(9, 6), "counted in 9, pending, 1"],
  "a reminder that is due is a message": [firing, own("reminder", 242, 1, 1), "message of 1, firing, 3"],
  "a repeated reminder is counted": [reminded, own("reminder", 243, 1, 1), "counted in 1, firing, 3"],
  "the next reminder is a message": [reminded, own("reminder", 482, 1, 2), "message of 1, firing, 3"],
  "a reminder after the recovery is counted": [resolved, own("reminder", 242, 1, 1), "counted in 1, resolved, 3"],
  "a reminder of an earlier alert is counted there": [firing, own("reminder", 242, 77, 1), "counted in 77, firing, 3"],
  "a reminder of an alert that is gone is counted": [undefined, own("reminder", 242, 1, 1), "counted in 1, none"],
  "an acknowledgement is counted": [firing, own("acknowledgement", 3, 1, 1), "counted in 1, acknowledged, 3"],
  "an acknowledgement of a pending alert changes nothing": [
    pending,
    own("acknowledgement", 3, 1, 0),
    "counted in 1, pending, 2",
  ],
  "failures of an acknowledged alert are counted": [acknowledged, failure(8, 4), "counted in 1, acknowledged, 4"],
  "a reminder of an acknowledged alert is counted": [
    acknowledged,
    own("reminder", 242, 1, 1),
    "counted in 1, acknowledged, 3",
  ],
  "a recovery of an acknowledged alert is a message": [acknowledged, recovery(5), "message of 1, resolved, 3"],
  "no failure for `resolveAfter` ends an acknowledged alert": [
    acknowledged,
    own("expiry", 24 * 60 + 2, 1, 1),
    "message of 1, resolved, 3",
  ],
  "an operator's end of a firing alert is a message": [firing, own("resolution", 3, 1, 1), "message of 1, resolved, 3"],
  "an operator's end of a pending alert is counted": [pending, own("resolution", 3, 1, 0), "counted in 1, resolved, 2"],
  "an operator's end of an earlier alert is counted there": [
    firing,
    own("resolution", 3, 77, 1),
    "counted in 77, firing, 3",
  ],
  "no failure for `resolveAfter` ends the alert": [
    firing,
    own("expiry", 24 * 60 + 2, 1, 1),
    "message of 1, resolved, 3",
  ],
  "a mute of a firing alert is counted": [firing, mute, "counted in 1, muted, 3"],
  "a mute of an earlier alert is counted there": [firing, own("mute", 4, 77, 1, 60), "counted in 77, firing, 3"],
  "a failure of a muted alert is counted": [muted, failure(8, 5), "counted in 1, muted, 4"],
  "a recovery of a muted alert is counted": [muted, recovery(5), "counted in 1, muted, 3"],
  "a failure after the recovery of a muted alert is counted in it": [
    then(muted, recovery(5)),
    failure(8, 6),
    "counted in 1, muted, 4",
  ],
  "a reminder of a muted alert is counted": [muted, own("reminder", 242, 1, 1), "counted in 1, muted, 3"],
  "the end of a mute without a failure since is counted": [muted, unmuting, "counted in 1, firing, 3"],
  "the end of a mute with a failure since is a message": [
    then(muted, failure(8, 5)),
    unmuting,
    "message of 1, firing, 4",
  ],
  "the end of a mute with the recovery since is its message": [
    then(muted, recovery(5)),
    unmuting,
    "message of 1, resolved, 3",
  ],
  "the end of a mute with the recovery and a failure below `after` since is the recovery's message": [
    then(muted, recovery(5), failure(8, 6)),
    unmuting,
    "message of 1, resolved, 4",
  ],
  "the end of a mute of an alert that is acknowledged meanwhile is counted": [
    then(muted, failure(8, 5), own("acknowledgement", 6, 1, 1)),
    unmuting,
    "counted in 1, acknowledged, 4",
  ],
  "the end of an earlier mute is counted": [then(muted, own("mute", 5, 1, 1, 90)), unmuting, "counted in 1, muted, 3"],
  "the end of a mute that began while the alert was pending is the first message": [
    then(pending, mute, failure(3, 5)),
    unmuting,
    "message of 1, firing, 3",
  ],
  "the end of a mute in which an alert came and went is counted": [
    then(pending, mute, failure(3, 5), recovery(6)),
    unmuting,
    "counted in 1, resolved, 3",
  ],
  "an operator's end of a muted alert is a message if it was sent": [
    muted,
    own("resolution", 5, 1, 1),
    "message of 1, resolved, 3",
  ],
  "an operator's end of an alert that was muted before its first message is counted": [
    then(pending, mute, failure(3, 5)),
    own("resolution", 6, 1, 1),
    "counted in 1, resolved, 3",
  ],
  "the end of a mute of an alert that isn't muted is counted": [firing, unmuting, "counted in 1, firing, 3"],
  "a failure just before the end by time keeps it": [
    firing,
    own("expiry", 24 * 60 + 1, 1, 1),
    "counted in 1, firing, 3",
  ],
}

describe("an alert", () => {
  for (const [name, [before, signal, expected]] of Object.entries(transitions)) {
    test(name, () => {
      const { state, sends, alert } = next(policy, before, signal)
      const now = state === undefined ? "none" : `${state.status}, ${state.count}`
      expect(`${sends ? "message of" : "counted in"} ${alert}, ${now}`).toBe(expected)
    })
  }

  test("sends the first failure at once without `after`, and no end by time to a sink without recoveries", () => {
    const simple = { ...policy, resolves: false, after: { count: 1, within: Duration.minutes(10) } }
    const first = next(simple, undefined, failure(1, 0))
    expect(first).toMatchObject({ sends: true, alert: 1, state: { status: "firing", messages: 1 } })
    expect(next(simple, first.state, own("expiry", 24 * 60, 1, 1))).toMatchObject({ sends: false })
  })

  test("is due for a reminder, its end, or to be forgotten", () => {
    const at = (state: AlertState | undefined, minutes: number) => state && dueAt(policy, state, minutes * minute)
    expect([at(pending, 11), at(pending, 11 + keptFor / minute)]).toEqual([undefined, "forgotten"])
    expect([at(firing, 241), at(firing, 242), at(reminded, 243)]).toEqual([undefined, "reminder", undefined])
    expect([at(firing, 24 * 60 + 2), at(acknowledged, 24 * 60 + 2)]).toEqual(["expiry", "expiry"])
    expect(at(acknowledged, 242)).toBeUndefined()
    expect([at(resolved, 5), at(resolved, 5 + keptFor / minute)]).toEqual([undefined, "forgotten"])
    const { repeat: _, ...unrepeated } = policy
    expect(dueAt(unrepeated, firing, 300 * minute)).toBeUndefined()
    expect([at(muted, 59), at(muted, 60)]).toEqual([undefined, "unmuting"])
  })
})

describe("an alert whose messages can be changed", () => {
  const changing = { ...policy, after: { count: 1, within: Duration.minutes(10) }, update: Duration.minutes(1) }
  const step = (state: AlertState | undefined, signal: Signal) => next(changing, state, signal)
  const begun = step(undefined, failure(1, 0)).state
  const grown = step(begun, failure(2, 0.5)).state
  const changed = step(grown, own("update", 1, 1, 1))
  const due = (state: AlertState | undefined, minutes: number) => state && dueAt(changing, state, minutes * minute)

  test("is due for a change after the time, if there are new failures", () => {
    expect([due(begun, 5), due(grown, 0.9), due(grown, 1), due(changed.state, 5)]).toEqual([
      undefined,
      undefined,
      "update",
      undefined,
    ])
    expect(changed).toMatchObject({ sends: true, alert: 1, state: { count: 2, messages: 1, sentAt: 0 } })
    expect(due(step(changed.state, failure(3, 1.5)).state, 2)).toBe("update")
  })

  test("is due for a change at the end of quiet hours, not within them", () => {
    const hours = { hours: { from: 10, to: 1_440 }, timeZone: "UTC", outside: "later" } as const
    const at = (minutes: number) => grown && dueAt({ ...changing, within: hours }, grown, minutes * minute)
    expect([at(1), at(9.9), at(10)]).toEqual([undefined, undefined, "update"])
  })

  test("is due for its reminder before a change, and the reminder shows the count as well", () => {
    const late = step(grown, failure(3, 239)).state
    expect(due(late, 241)).toBe("reminder")
    expect(due(step(late, own("reminder", 241, 1, 1)).state, 260)).toBeUndefined()
  })

  test("is not changed again, and not after its end", () => {
    const resolved = step(grown, recovery(0.7)).state
    for (const state of [changed.state, resolved, undefined]) {
      expect(step(state, own("update", 2, 1, 1))).toMatchObject({ sends: false, alert: 1 })
    }
    expect(due(resolved, 2)).toBeUndefined()
  })

  test("says that it is acknowledged, and shows later failures", () => {
    const acknowledged = step(grown, own("acknowledgement", 1, 1, 1))
    expect(acknowledged).toMatchObject({ sends: true, state: { status: "acknowledged" } })
    expect(due(acknowledged.state, 3)).toBeUndefined()
    expect(due(step(acknowledged.state, failure(3, 3)).state, 4)).toBe("update")
  })

  test("is not changed by a policy without changes, as after a reload", () => {
    expect(grown && dueAt(policy, grown, 5 * minute)).toBeUndefined()
    expect(next(policy, grown, own("update", 2, 1, 1))).toMatchObject({ sends: false, state: grown })
  })
})

describe("the alerts of a lane", () => {
  const simple = { ...policy, after: { count: 1, within: Duration.minutes(10) } }
  const failed = (sequence: number) => entry(sequence, { type: "connected_account.refresh_failed", receivedAt: 0 })

  test("continue from their stored states", () => {
    const alerts = new Alerts(simple, [])
    const { state } = alerts.take(failed(1), "acct_1")
    const again = new Alerts(simple, [{ key: "acct_1", state: JSON.stringify(state) }])
    expect(again.take(failed(2), "acct_1")).toMatchObject({ sends: false, alert: 1, state: { count: 2 } })
  })

  test("find the alert of an own entry, whose message has the type, the account and the body of the failure", () => {
    const alerts = new Alerts(simple, [])
    const newest = failed(1)
    const { state } = alerts.take(newest, "acct_1")
    if (state === undefined) throw new Error("no alert")
    const own = { ...newest, sequence: 5, event: ownEvent("chat", state, "reminder", 9_000_000) }
    expect(ownOf(own.event)).toEqual({ is: "reminder", alert: 1, message: 1, failure: 1 })
    expect(alerts.ownKey(own)).toBe("acct_1")
    expect(alerts.ownKey(newest)).toBeUndefined()
    expect(alerts.take(own, "acct_1")).toMatchObject({ sends: true, alert: 1 })
    const { event, alert } = alerts.told(own, "acct_1", "the account acct_1", newest.event)
    expect(event).toMatchObject({
      ...newest.event,
      id: own.event.id,
      signature: "",
      webhookId: "",
      secret: "",
      receivedAt: 9_000_000,
    })
    expect(alert).toEqual({
      ...{ key: "the account acct_1", action: "reminder", status: "firing", count: 1, first: 0, last: 0 },
    })
  })

  test("end by time although a failure was received just before an earlier end", () => {
    const { state } = new Alerts(simple, []).take(failed(1), "acct_1")
    if (state === undefined) throw new Error("no alert")
    const ends = [1, 1, 2].map((newest) => ownEvent("chat", { ...state, newest }, "expiry", 9_000_000).id)
    expect(new Set(ends).size).toBe(2)
  })

  test("mute under an id of its own for each end, and remember their newest messages by what these say", () => {
    const alerts = new Alerts(simple, [])
    const key = "acct_1"
    const { state } = alerts.take(failed(1), key)
    if (state === undefined) throw new Error("no alert")
    const own = (sequence: number, what: Parameters<typeof ownEvent>[2], until?: number) => {
      const of = alerts.get(1) ?? state
      return {
        ...failed(sequence),
        sequence,
        event: ownEvent("chat", of, what, sequence * minute, until ?? of.muted?.until),
      }
    }
    expect(own(2, "mute", 5 * minute).event.id).not.toBe(own(2, "mute", 6 * minute).event.id)
    expect(ownOf(own(2, "mute", 5 * minute).event)).toMatchObject({ is: "mute", alert: 1, until: 5 * minute })
    alerts.take(own(2, "mute", 5 * minute), key)
    expect(alerts.nextDue).toBeLessThanOrEqual(5 * minute)
    alerts.take(failed(3), key)
    const ended = own(6, "unmuting")
    expect(alerts.take(ended, key)).toMatchObject({ sends: true, state: { status: "firing", messages: 2 } })
    expect(alerts.told(ended, key, "").alert).toMatchObject({ action: "reminder", count: 2 })
    expect(alerts.get(1)?.sent).toEqual([
      { sequence: 1, action: "trigger", at: 0 },
      { sequence: 6, action: "reminder", at: 6 * minute },
    ])
    for (let n = 7; n < 40; n++) alerts.take(own(n, "reminder"), key)
    expect(alerts.get(1)?.sent?.length).toBe(10)
    expect(alerts.get(1)?.sent?.at(-1)?.sequence).toBe(39)
  })

  test("keep nothing of their events but the type and the times", () => {
    const silencing = { ...simple, inhibitedBy: { match: ["connected_account.refresh_failed"], by: ["account_id"] } }
    const alerts = new Alerts(silencing, [])
    const { state } = alerts.take(entry(1, { ...failed(1).event, accountId: "acct_1" }), alertKey("acct_1"))
    if (state === undefined) throw new Error("no alert")
    const { body, ...own } = ownEvent("chat", state, "reminder", 9_000_000)
    const text = JSON.stringify([...alerts.all(), own, new TextDecoder().decode(body)])
    expect(text).toContain("connected_account.refresh_failed")
    expect(text).not.toContain("acct_1")
    expect(state.group).toBe(alertKey("acct_1"))
  })

  test("are limited: the events of further keys are messages", () => {
    const alerts = new Alerts(policy, [])
    for (let n = 1; n <= maxAlerts; n++) alerts.take(failed(n), `key ${n}`)
    expect(alerts.take(failed(maxAlerts + 1), "another")).toMatchObject({ sends: true, state: undefined })
    expect(alerts.take(failed(maxAlerts + 2), "key 1")).toMatchObject({ sends: false, alert: 1 })
    expect(alerts.size).toBe(maxAlerts)
  })
})

describe("a message of an alert in quiet hours", () => {
  // Open from 08:00 to 18:00.
  const within = { hours: { from: 8 * 60, to: 18 * 60 }, timeZone: "UTC", outside: "digest" } as const
  const [night, day] = [20 * 60 * minute, 10 * 60 * minute]
  const own = new Alerts({ ...policy, within }, [])
  const shared = new Alerts({ ...policy, within, resolves: false }, [])
  const later = new Alerts({ ...policy, within: { ...within, outside: "later" } }, [])
  const toMorning = 12 * 60 * minute

  test("waits for their end, by itself or with others", () => {
    const nothing = () => false
    expect(later.messageOf("k", night, nothing)).toEqual({ key: "k", wait: toMorning })
    expect(own.messageOf("k", night, nothing)).toEqual({ key: quietKey("k"), wait: toMorning })
    expect(shared.messageOf("k", night, nothing)).toEqual({ key: quietKey(""), wait: toMorning })
    for (const alerts of [later, own, shared]) {
      expect(alerts.messageOf("k", day, nothing)).toEqual({ key: "k", wait: 0 })
      // It was sent before the quiet hours, and failed.
      expect(alerts.messageOf("k", night, (key) => key === "k").key).toBe("k")
    }
    expect(own.messageOf("k", day, (key) => key === quietKey("k"))).toEqual({ key: quietKey("k"), wait: 0 })
  })

  test("keeps others from being added, except reminders and ends that the message of all alerts shows", () => {
    const waits = (key: string) => key === quietKey("k") || key === quietKey("")
    const kinds = ["reminder", "update", "expiry"] as const
    const added = (alerts: Alerts, now: number) => kinds.filter((what) => !alerts.isWaiting("k", what, now, waits))
    expect([added(own, night), added(own, day)]).toEqual([[], []])
    expect([added(shared, night), added(shared, day)]).toEqual([["reminder", "expiry"], ["expiry"]])
  })

  test("is followed by a reminder only when the time after their end has passed", () => {
    const [first] = [next({ ...policy, within, after: { ...policy.after, count: 1 } }, undefined, failure(1, 20 * 60))]
    expect(first?.state && remindsAt({ ...policy, within }, first.state)).toBe((32 + 4) * 60 * minute)
  })
})

describe("an alert that silences others", () => {
  const lost = "connected_account.refresh_failed"
  const silencing: ChangesPolicy = {
    ...{ ...policy, after: { count: 1, within: Duration.minutes(10) } },
    inhibitedBy: { match: [lost], by: ["account_id"] },
  }
  const of = (sequence: number, type: string, accountId = "acct_1") =>
    entry(sequence, { type, accountId, receivedAt: 0 })
  const meeting = "appointment.meeting.create_failed"
  const told = (alerts: Alerts, one: ReturnType<typeof of>, key: string): string => {
    const { sends, alert, key: at } = alerts.take(one, key)
    return `${sends ? "message" : "counted"} in ${alert}, ${at}`
  }

  test("counts the failures of the same account while it fires, and their recoveries", () => {
    const alerts = new Alerts(silencing, [])
    expect(told(alerts, of(1, meeting), "m1")).toBe("message in 1, m1")
    expect(told(alerts, of(2, lost), "lost")).toBe("message in 2, lost")
    expect(told(alerts, of(3, meeting), "m2")).toBe("counted in 2, lost")
    expect(told(alerts, of(4, meeting, "acct_2"), "m3")).toBe("message in 4, m3")
    // It was sent before the cause.
    expect(told(alerts, of(5, meeting), "m1")).toBe("counted in 1, m1")
    expect(told(alerts, of(6, "appointment.meeting.created"), "m1")).toBe("message in 1, m1")
    expect(told(alerts, of(7, "appointment.meeting.created"), "m2")).toBe("counted in 2, lost")
    expect(alerts.get(2)).toMatchObject({ count: 1, others: 2, group: alertKey("acct_1") })
    expect(told(alerts, of(8, "connected_account.reconnected"), "lost")).toBe("message in 2, lost")
    expect(told(alerts, of(9, meeting), "m4")).toBe("message in 9, m4")
    expect(told(alerts, of(10, "appointment.meeting.created"), "m2")).toBe("counted in 2, lost")
  })

  test("leaves the others of its group to silence failures when it is forgotten", () => {
    const alerts = new Alerts(silencing, [])
    expect(told(alerts, of(1, lost), "one")).toBe("message in 1, one")
    expect(told(alerts, of(2, lost), "two")).toBe("message in 2, two")
    alerts.forget("one")
    expect(told(alerts, of(3, meeting), "m1")).toBe("counted in 2, two")
    alerts.forget("two")
    expect(told(alerts, of(4, meeting), "m2")).toBe("message in 4, m2")
  })

  test("continues to silence them after a restart, and not while it is pending", () => {
    const pending = new Alerts({ ...silencing, after: policy.after }, [])
    expect(told(pending, of(1, lost), "lost")).toBe("counted in 1, lost")
    expect(told(pending, of(2, meeting), "m1")).toBe("counted in 2, m1")
    const alerts = new Alerts(silencing, [])
    const { state } = alerts.take(of(1, lost), "lost")
    const again = new Alerts(silencing, [{ key: "lost", state: JSON.stringify(state) }])
    expect(told(again, of(2, meeting), "m1")).toBe("counted in 1, lost")
    again.forget("lost")
    expect(told(again, of(3, meeting), "m1")).toBe("message in 3, m1")
  })

  test("may have any type that a pattern matches, and none of these is silenced", () => {
    const causes = { match: ["connected_account.*_failed", "calendar.{lost,closed}"], by: ["account_id"] }
    const alerts = new Alerts({ ...silencing, inhibitedBy: causes }, [])
    expect(told(alerts, of(1, "calendar.lost"), "calendar")).toBe("message in 1, calendar")
    expect(told(alerts, of(2, lost), "lost")).toBe("message in 2, lost")
    expect(told(alerts, of(3, "connected_account.other"), "other")).toBe("counted in 1, calendar")
    expect(told(alerts, of(4, meeting), "m1")).toBe("counted in 1, calendar")
    const none = new Alerts({ ...silencing, inhibitedBy: { ...causes, match: ["calendar.*"] } }, [])
    expect(told(none, of(5, lost), "lost")).toBe("message in 5, lost")
    expect(told(none, of(6, meeting), "m1")).toBe("message in 6, m1")
  })

  test("may have begun with another type, because it has the type of its newest failure", () => {
    const alerts = new Alerts(silencing, [])
    expect(told(alerts, of(1, meeting), "acct_1")).toBe("message in 1, acct_1")
    expect(told(alerts, of(2, lost), "acct_1")).toBe("counted in 1, acct_1")
    expect(alerts.get(1)).toMatchObject({ type: lost, newest: 2 })
    expect(told(alerts, of(3, meeting), "m1")).toBe("counted in 1, acct_1")
  })

  test("silences nothing of an event without its fields", () => {
    const alerts = new Alerts(silencing, [])
    expect(told(alerts, of(1, lost, ""), "lost")).toBe("message in 1, lost")
    expect(told(alerts, of(2, meeting, ""), "m1")).toBe("message in 2, m1")
  })
})
