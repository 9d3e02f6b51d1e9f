import { describe, expect } from "bun:test"
import { Schema } from "effect"
import { Route, TypeReport } from "../../src/admin/api/Api.ts"
import * as Counters from "../../src/ingest/Counters.ts"
import { it } from "../lib/effect.ts"
import { json, start } from "./fixture.ts"

const route = (name: string, match: ReadonlyArray<string>, more = {}) => ({
  ...{ name, match, except: [], where: {}, to: ["lake"] },
  ...more,
})
const routes = [
  route("everything", ["**"]),
  route("failures", ["appointment.meeting.*_failed"], { to: ["oncall"] }),
  route("one account", ["client.*"], { where: { "/account_id": ["acct_1"] }, to: ["crm"] }),
]

const routesIn = Schema.decodeUnknownSync(Schema.Array(Route))
const reportIn = Schema.decodeUnknownSync(TypeReport)

describe("routes in the admin API", () => {
  it.live("are those in force, with the deliveries that each would take", function* () {
    const { ask } = yield* start({
      config: { routes },
      counted: (counters) => {
        const { events } = Counters.ofWebhook(counters, "scheduling")
        events.set("client.created", 3)
        events.set("appointment.created", 4)
      },
    })
    const found = routesIn(yield* json(yield* ask("/api/v1/routes")))
    expect(found.map(({ name, count }) => [name, count])).toEqual([
      ["everything", 7],
      ["failures", 0],
      ["one account", 3],
    ])
    expect(found[2]).toMatchObject({ where: { "/account_id": ["acct_1"] }, to: ["crm"] })
  })

  it.live("explain any type, known or unknown", function* () {
    const { ask } = yield* start({ config: { routes } })
    const found = reportIn(yield* json(yield* ask("/api/v1/routes/explain?type=client.created")))
    expect(found).toMatchObject({ type: "client.created", isKnown: true, sinks: ["lake"], conditional: ["crm"] })
    expect(found.routes.map(({ verdict }) => verdict)).toEqual(["matches", "no pattern matches", "matches when"])
    expect(yield* json(yield* ask("/api/v1/routes/explain?type=clientt.created"))).toMatchObject({ isKnown: false })
    expect((yield* ask("/api/v1/routes/explain?type=client.created&webhook=none")).status).toBe(404)
  })
})
