/** The router compared with a naive router over random routes, and the maximum cost of routing an event. */
import { describe, expect, spyOn, test } from "bun:test"
import { DateTime, Glob } from "effect"
import type { Envelope } from "../../src/event/Envelope.ts"
import { eventTypes, relayEventTypes } from "../../src/event/EventType.ts"
import * as Router from "../../src/routing/Router.ts"
import { seeded } from "../lib/seeded.ts"
import { tries } from "../lib/tries.ts"
import { holds, matches, randomCondition } from "./oracle.ts"

const envelope = (type: string, account = "acct_1", object: Record<string, unknown> = {}): Envelope => ({
  id: "evt_1",
  account_id: account,
  version: "1",
  created_at: "2026-11-21T00:00:00Z",
  data: { type, object },
})

const route = (
  name: string,
  match: ReadonlyArray<string>,
  to: ReadonlyArray<string>,
  more: Partial<Router.Route> = {},
) => ({
  name,
  match,
  except: [],
  where: {},
  to,
  ...more,
})

const at = (time: string): number => Date.parse(`2026-11-20T${time}:00Z`)

/** The sinks of an event received at this time (default: noon). */
const routed = (router: Router.Router, webhook: string, event: Envelope, received = at("12:00")) =>
  router.route(webhook, event, received)

describe("routing", () => {
  const router = Router.make([
    route("everything", ["**"], ["lake", "audit"]),
    route("failures", ["**.*_failed"], ["oncall", "lake"], { except: ["connected_account.*"] }),
    route("one account", ["client.*"], ["crm"], { where: { "/account_id": ["acct_1", "acct_2"] } }),
    route("vip", ["client.*"], ["crm", "desk"], { where: { "/data/object/vip": [true], "/account_id": ["acct_3"] } }),
    route("other", ["**"], ["elsewhere"], { webhook: "partner" }),
    route("own", ["relay.*"], ["chat"]),
  ])

  test("applies every route that matches, in the order of the config, each sink once", () => {
    expect(routed(router, "scheduling", envelope("appointment.meeting.create_failed"))).toEqual([
      "lake",
      "audit",
      "oncall",
    ])
  })

  test("leaves out the types in a route's `except`", () => {
    expect(routed(router, "scheduling", envelope("connected_account.refresh_failed"))).toEqual(["lake", "audit"])
  })

  test("keeps a route to its webhook", () => {
    expect(routed(router, "partner", envelope("block.created"))).toEqual(["lake", "audit", "elsewhere"])
  })

  test("requires for `where` that every pointer holds one of its values", () => {
    const sinks = (account: string, object = {}) =>
      routed(router, "scheduling", envelope("client.created", account, object))
    expect(sinks("acct_2")).toEqual(["lake", "audit", "crm"])
    expect(sinks("acct_3")).toEqual(["lake", "audit"])
    expect(sinks("acct_3", { vip: true })).toEqual(["lake", "audit", "crm", "desk"])
    expect(sinks("acct_3", { vip: "true" })).toEqual(["lake", "audit"])
  })

  test("sends the relay's own events only if a route names them", () => {
    for (const type of relayEventTypes) expect(router.routeType("relay", type)).toEqual(["chat"])
  })

  test("returns no sinks for an event that no route matches", () => {
    expect(routed(Router.make([route("few", ["client.*"], ["crm"])]), "w", envelope("block.created"))).toEqual([])
  })

  test("explains every route's verdict", () => {
    const verdicts = (webhook: string | undefined, type: string, event?: Envelope) =>
      router
        .explain(webhook, type, { envelope: event })
        .map(({ route, verdict, because }) => `${route}: ${verdict} (${because})`)
    expect(verdicts("scheduling", "client.created", envelope("client.created", "acct_9"))).toEqual([
      "everything: matches (**)",
      "failures: no pattern matches (**.*_failed)",
      'one account: where differs (/account_id is one of "acct_1", "acct_2")',
      "vip: where differs (/data/object/vip is true; the event has no such field)",
      "other: other webhook (partner)",
      "own: no pattern matches (relay.*)",
    ])
    expect(verdicts(undefined, "connected_account.refresh_failed")).toEqual([
      "everything: matches (**)",
      "failures: excepted (connected_account.*)",
      "one account: no pattern matches (client.*)",
      "vip: no pattern matches (client.*)",
      "other: matches (**)",
      "own: no pattern matches (relay.*)",
    ])
    const fits = envelope("client.created", "acct_3", { vip: true })
    expect(verdicts("scheduling", "client.created", fits)).toContain(
      'vip: matches (client.* where /data/object/vip is true and /account_id is "acct_3")',
    )
    expect(verdicts("scheduling", "client.created")).toContain(
      'vip: matches when (/data/object/vip is true and /account_id is "acct_3")',
    )
  })
})

describe("against the naive router", () => {
  /** Evaluates the config for every event without any preparation. */
  const naive = (routes: ReadonlyArray<Router.Route>, webhook: string, event: Envelope): ReadonlyArray<string> => {
    const { type } = event.data
    const facts: Readonly<Record<string, unknown>> = {
      "/account_id": event.account_id,
      "/data/object/n": event.data.object.n,
    }
    const taking = routes.filter(
      (_) =>
        (_.webhook === undefined || _.webhook === webhook) &&
        _.match.some((pattern) => matches(pattern, type)) &&
        !_.except.some((pattern) => matches(pattern, type)) &&
        Object.entries(_.where).every(([pointer, condition]) => holds(condition, facts[pointer])),
    )
    return [...new Set(taking.flatMap((_) => _.to))]
  }

  test("random routes and events get the same sinks", () => {
    const random = seeded(42)
    const pick = <A>(from: ReadonlyArray<A>): A => from[Math.floor(random() * from.length)] as A
    const some = <A>(most: number, make: () => A): ReadonlyArray<A> =>
      Array.from({ length: Math.floor(random() * (most + 1)) }, make)
    const patterns = [
      "**",
      "client.*",
      "*.created",
      "**.*_failed",
      "appointment.**",
      "{block,service}.*",
      "x.*",
      "relay.*",
      "provider.updated",
    ]
    const types = [...eventTypes, "x.y", "x", "relay.forged", "a..b"]
    const randomRoute = (index: number): Router.Route => ({
      name: `r${index}`,
      match: [pick(patterns), ...some(2, () => pick(patterns))],
      except: random() < 0.3 ? [pick(patterns)] : [],
      where: {
        ...(random() < 0.3 ? { "/account_id": [pick(["acct_1", "acct_2"])] } : {}),
        ...(random() < 0.2 ? { "/data/object/n": [pick([1, 2, null, "1"])] } : {}),
        ...(random() < 0.2 ? { "/data/object/n": randomCondition(random) } : {}),
      },
      to: [pick(["a", "b", "c", "d"]), ...some(2, () => pick(["a", "b", "c", "d"]))],
      ...(random() < 0.3 ? { webhook: pick(["one", "two"]) } : {}),
    })
    for (let round = 0; round < tries(150); round++) {
      const routes = Array.from({ length: Math.floor(random() * 12) }, (_, index) => randomRoute(index))
      const router = Router.make(routes)
      for (let n = 0; n < 40; n++) {
        const webhook = pick(["one", "two"])
        const event = envelope(
          pick(types),
          pick(["acct_1", "acct_2", "acct_3"]),
          pick([{}, { n: 1 }, { n: "1" }, { n: null }, { n: "10" }, { n: { deep: 1 } }, { n: true }]),
        )
        // Sinks are a set. If `where` decides, their order is not guaranteed.
        expect([...routed(router, webhook, event)].sort()).toEqual([...naive(routes, webhook, event)].sort())
      }
    }
  })
})

describe("the cost of an event", () => {
  const many = Array.from({ length: 1000 }, (_, index) =>
    route(`r${index}`, [`appointment.${index % 2 === 0 ? "*" : "created"}`, "**.*_failed"], [`s${index % 10}`]),
  )

  const evaluations = (work: () => void): number => {
    const match = spyOn(Glob, "match")
    work()
    const { length } = match.mock.calls
    match.mockRestore()
    return length
  }

  test("includes no pattern for a type of the catalogue, with a thousand routes", () => {
    const router = Router.make(many)
    const events = eventTypes.map((type) => envelope(type))
    expect(evaluations(() => events.map((event) => routed(router, "scheduling", event)))).toBe(0)
  })

  test("includes no pattern from the second event on for an unknown type", () => {
    const router = Router.make(many)
    const event = envelope("appointment.teleported")
    expect(evaluations(() => routed(router, "scheduling", event))).toBeGreaterThanOrEqual(1000)
    expect(evaluations(() => routed(router, "scheduling", event))).toBe(0)
  })

  test("includes no new array: the same result is the same array, which the journal can share", () => {
    const router = Router.make(many)
    expect(routed(router, "scheduling", envelope("appointment.created"))).toBe(
      routed(router, "scheduling", envelope("appointment.created", "acct_2")),
    )
  })
})

describe("a sink that is to hear when a failure is over", () => {
  const created = envelope("appointment.meeting.created")
  const router = Router.make(
    [
      route("failures", ["**.*_failed"], ["oncall", "log"], { except: ["connected_account.*"] }),
      route("one account", ["connected_account.refresh_failed"], ["oncall"], { where: { "/account_id": ["acct_1"] } }),
      route("partner", ["appointment.meeting.update_failed"], ["oncall"], { webhook: "partner" }),
    ],
    new Set(["oncall"]),
  )

  test("gets the recovery by the routes that lead the failure to it, and no other sink does", () => {
    expect(routed(router, "scheduling", created)).toEqual(["oncall"])
    expect(routed(router, "scheduling", envelope("appointment.meeting.create_failed"))).toEqual(["oncall", "log"])
    expect(routed(router, "scheduling", envelope("client.created"))).toEqual([])
  })

  test("gets it under the same conditions", () => {
    expect(routed(router, "scheduling", envelope("connected_account.reconnected", "acct_1"))).toEqual(["oncall"])
    expect(routed(router, "scheduling", envelope("connected_account.reconnected", "acct_2"))).toEqual([])
  })

  test("doesn't get a recovery that its route excepts", () => {
    const routes = [route("failures", ["**.*_failed"], ["oncall"], { except: ["appointment.meeting.created"] })]
    const excepting = Router.make(routes, new Set(["oncall"]))
    expect(routed(excepting, "scheduling", created)).toEqual([])
    expect(excepting.explain("scheduling", "appointment.meeting.created", { envelope: created })[0]?.verdict).toBe(
      "no pattern matches",
    )
  })

  test("is explained by the failure that ends", () => {
    expect(router.explain("scheduling", "appointment.meeting.created", { envelope: created })[0]).toEqual({
      route: "failures",
      sinks: ["oncall"],
      verdict: "resolves",
      because: "appointment.meeting.create_failed",
    })
    expect(router.explain("scheduling", "connected_account.reconnected").map(({ verdict }) => verdict)).toEqual([
      "no pattern matches",
      "matches when",
      "other webhook",
    ])
  })
})

describe("a route with hours", () => {
  const berlin = (from: number, to: number) => ({ hours: { from: from * 60, to: to * 60 }, timeZone: "Europe/Berlin" })
  const failed = envelope("connected_account.refresh_failed")
  const [day, night] = [berlin(8, 18), berlin(18, 8)]
  const router = Router.make(
    [
      route("always", ["**"], ["lake"]),
      route("day", ["**.*_failed"], ["chat"], { within: day }),
      route("night", ["**.*_failed", "relay.**"], ["oncall"], { within: night }),
      route("one account", ["**.*_failed"], ["desk"], { within: day, where: { "/account_id": ["acct_2"] } }),
    ],
    new Set(["chat"]),
  )

  test("takes the events received within them, by the clock of the time zone", () => {
    // In November Berlin is an hour ahead of UTC.
    expect(["06:59", "07:00", "16:59", "17:00", "23:30"].map((time) => routed(router, "w", failed, at(time)))).toEqual([
      ["lake", "oncall"],
      ["lake", "chat"],
      ["lake", "chat"],
      ["lake", "oncall"],
      ["lake", "oncall"],
    ])
    const other = envelope("connected_account.refresh_failed", "acct_2")
    expect(routed(router, "w", other, at("09:00"))).toEqual(["lake", "chat", "desk"])
    expect(routed(router, "w", other, at("19:00"))).toEqual(["lake", "oncall"])
  })

  test("has no gap and no hour twice when the clocks are changed", () => {
    const [before, during] = [berlin(0, 2), berlin(2, 3)]
    const around = Router.make(
      [
        route("before", ["**"], ["a"], { within: before }),
        route("during", ["**"], ["b"], { within: during }),
        route("rest", ["**"], ["c"], { within: berlin(3, 0) }),
      ],
      new Set(),
    )
    const sinks = (time: string) => routed(around, "w", failed, Date.parse(time)).join()
    // At 01:00 UTC the clock goes from 02:00 to 03:00, and in October from 03:00 back to 02:00.
    expect(["2026-03-29T00:59Z", "2026-03-29T01:00Z"].map(sinks)).toEqual(["a", "c"])
    const october = [
      "2026-10-24T23:59Z",
      "2026-10-25T00:00Z",
      "2026-10-25T01:00Z",
      "2026-10-25T01:59Z",
      "2026-10-25T02:00Z",
    ]
    expect(october.map(sinks)).toEqual(["a", "b", "b", "b", "c"])
  })

  test("takes the relay's own events by their time, or at any hour without one", () => {
    const sinks = (time?: string) =>
      router.routeType("relay", "relay.lane_paused", time === undefined ? undefined : at(time))
    expect([sinks("03:00"), sinks("12:00"), sinks()]).toEqual([["oncall"], [], ["oncall"]])
  })

  test("leads a recovery to the sinks of its failure at any hour", () => {
    const reconnected = envelope("connected_account.reconnected")
    for (const time of ["03:00", "12:00"]) expect(routed(router, "w", reconnected, at(time))).toEqual(["lake", "chat"])
    const all = Router.make(
      [route("day", ["connected_account.*"], ["chat", "log"], { within: day })],
      new Set(["chat"]),
    )
    expect(routed(all, "w", reconnected, at("03:00"))).toEqual(["chat"])
    expect(all.explain("w", "connected_account.reconnected", { envelope: reconnected, at: at("03:00") })).toEqual([
      { route: "day", sinks: ["chat"], verdict: "resolves", because: "connected_account.refresh_failed" },
    ])
    expect(routed(all, "w", reconnected, at("12:00"))).toEqual(["chat", "log"])
  })

  test("is explained by its hours", () => {
    const verdicts = (about?: Parameters<Router.Router["explain"]>[2]) =>
      router
        .explain("w", "connected_account.refresh_failed", about)
        .map(({ verdict, because }) => `${verdict}: ${because}`)
    expect(verdicts({ envelope: failed, at: at("12:00") })).toEqual([
      "matches: **",
      "matches: **.*_failed within 08:00-18:00 Europe/Berlin",
      "outside hours: 18:00-08:00 Europe/Berlin",
      'where differs: /account_id is "acct_2"',
    ])
    expect(verdicts()).toEqual([
      "matches: **",
      "matches when: it is received within 08:00-18:00 Europe/Berlin",
      "matches when: it is received within 18:00-08:00 Europe/Berlin",
      'matches when: /account_id is "acct_2" and it is received within 08:00-18:00 Europe/Berlin',
    ])
  })

  test("asks the clock of the time zone once for each period, and never without hours", () => {
    const parts = spyOn(DateTime, "toParts")
    const asked = (times: ReadonlyArray<string>, event: Envelope): number => {
      const before = parts.mock.calls.length
      for (const time of times) routed(router, "w", event, at(time))
      return parts.mock.calls.length - before
    }
    expect(asked(["12:00", "12:01", "15:00"], envelope("client.created"))).toBe(0)
    expect(asked(["09:00"], failed)).toBeGreaterThan(0)
    expect(asked(["09:01", "15:00", "16:59"], failed)).toBe(0)
    expect(asked(["17:00"], failed)).toBeGreaterThan(0)
    parts.mockRestore()
  })
})
