import { expect } from "bun:test"
import { it } from "../../lib/effect.ts"
import { temporary } from "../harness.ts"
import { runningIn } from "../running.ts"

const running = runningIn(temporary())

const alert = {
  ...{ sink: "oncall", id: 4_711, status: "firing" as const },
  ...{ type: "connected_account.refresh_failed", account: "acct_1", count: 12, first: 1_000, last: 61_000 },
  newest: 4_730,
  ...{ messages: 2, sentAt: 61_000, remindsAt: 14_461_000 },
  sent: [
    { sequence: 4_711, action: "trigger", at: 1_000 },
    { sequence: 4_730, action: "reminder", at: 61_000 },
  ],
} as const

it.live("alerts are listed, acknowledged, resolved and muted", function* () {
  const { remindsAt: _, ...over } = { ...alert, id: 9, status: "resolved", last: 99_000 } as const
  const { ask, told } = yield* running({ alerts: [alert, over] })
  const lines = (yield* ask("alerts", "list")).stdout.trimEnd().split("\n")
  expect(lines.map((line) => line.trim().split(/ {2,}/).slice(0, 4))).toEqual([
    ["SINK", "ID", "STATE", "FAILURES"],
    ["oncall", "4711", "firing", "12"],
    ["oncall", "9", "resolved", "12"],
  ])
  expect(lines[1]).toContain("1970-01-01T04:01:01.000Z")
  expect(JSON.parse((yield* ask("alerts", "list", "--json")).stdout)).toEqual([alert, over])
  expect((yield* ask("alerts", "ack", "oncall", "4711")).stdout).toBe("oncall: no more reminders of alert 4711\n")
  expect((yield* ask("alerts", "resolve", "oncall", "4711")).stdout).toBe(
    "oncall: alert 4711 is over; its next failure begins another\n",
  )
  const now = Date.now()
  const muted = yield* ask("alerts", "mute", "oncall", "4711", "--for", "8h", "--json")
  const { until } = JSON.parse(muted.stdout)
  expect(until - now - 28_800_000).toBeGreaterThanOrEqual(0)
  expect(yield* told).toEqual([
    "acknowledgement oncall 4711",
    "resolution oncall 4711",
    `mute oncall 4711 until ${until}`,
  ])
  expect(yield* ask("alerts", "mute", "oncall", "4711", "--for", "tonight")).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("--for tonight: a span is 30m"),
  })
  expect(yield* ask("alerts", "ack", "oncall", "7")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("this relay has no alert 7 of a sink oncall; `relay alerts list` shows the alerts"),
  })
})

it.live("an alert is shown with its messages", function* () {
  const { ask } = yield* running({ alerts: [alert] })
  const { stdout } = yield* ask("alerts", "show", "oncall", "4711")
  expect(stdout).toMatch(/state +firing\n/)
  expect(stdout).toMatch(/failures +12, the first at 1970-01-01T00:00:01.000Z/)
  expect(stdout).toMatch(/newest +connected_account.refresh_failed of acct_1/)
  expect(stdout).toMatch(/\n +trigger +1970-01-01T00:00:01.000Z +not kept +- +- +seq_4711\n/)
  expect(JSON.parse((yield* ask("alerts", "show", "oncall", "4711", "--json")).stdout)).toMatchObject({
    ...{ alert, messages: alert.sent, events: [], hasMore: false },
  })
  expect((yield* ask("alerts", "show", "oncall", "7")).code).toBe(1)
})

it.live("a muted alert is listed with the end of the mute", function* () {
  const { remindsAt: _, ...quiet } = alert
  const { ask } = yield* running({ alerts: [{ ...quiet, status: "muted", mutedUntil: 28_800_000 }] })
  expect((yield* ask("alerts", "list")).stdout).toMatch(/oncall +4711 +muted until 1970-01-01T08:00:00.000Z +12 /)
})

it.live("no alerts are no error", function* () {
  const { ask } = yield* running()
  expect((yield* ask("alerts", "list")).stdout).toBe('there are no alerts: a sink has them if its config has "alert"\n')
})
