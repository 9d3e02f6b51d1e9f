/** Erasing events that alerts have counted, with the lanes of a relay on the journal. */
import { describe, expect } from "bun:test"
import { Effect, Layer } from "effect"
import { erase } from "../../../src/admin/api/ErasureApi.ts"
import { type AlertReport, Lanes } from "../../../src/delivery/Lanes.ts"
import type { Entry } from "../../../src/event/Event.ts"
import { sha256 } from "../../../src/event/IdempotencyKey.ts"
import { allSent } from "../../../src/sinks/Sink.ts"
import { firingAtOnce, lanesOf, spec } from "../../delivery/fixture.ts"
import { allEvents, allThatIsRead } from "../../journal/histories.ts"
import { event } from "../../journal/samples.ts"
import { whole } from "../../journal/whole.ts"
import { it } from "../../lib/effect.ts"
import type { Create } from "./sessions.ts"

const type = "connected_account.refresh_failed"

/**
 * A sink whose alerts have the account and a name from the body in their keys. Both alerts of a group fire.
 */
const chat = () => {
  const sent: Array<string> = []
  const sink = {
    batch: { maxEvents: 100, maxBytes: 1_000_000 },
    send: (batch: ReadonlyArray<Entry>) =>
      Effect.sync(() => {
        sent.push(...batch.map(({ sequence, alert }) => `${sequence}: ${alert?.action} ${alert?.key}`))
        return allSent
      }),
    check: Effect.void,
  }
  const alert = {
    ...firingAtOnce,
    inhibitedBy: { match: [type], by: ["account_id"] },
  }
  const key = ({ event }: Entry) => `${event.accountId}/${new TextDecoder().decode(event.body)}`
  return { sent, spec: { ...spec("chat", sink, { order: "key", alert }), key } }
}

const fails = (id: string, accountId: string) => ({
  ...event(id, { accountId, type, receivedAt: Date.now() }),
  body: new TextEncoder().encode(`"client of ${accountId}"`),
})

/** Tests a journal: `name` is in the titles. */
export const erasedAlertsContract = (name: string, create: Create): void => {
  describe(`${name}: alerts of erased events`, () => {
    it.live("hold nothing of them, count further failures of their key, and send nothing about them", () => {
      const open = create()
      const { sent, spec } = chat()
      const session = <A, E>(body: Effect.Effect<A, E, Lanes | Layer.Success<ReturnType<typeof open>>>) =>
        Effect.scoped(Effect.provide(body, lanesOf([spec]).pipe(Layer.provideMerge(open()))))
      const until = (isSo: (alerts: ReadonlyArray<AlertReport>) => boolean) =>
        Effect.gen(function* () {
          const { alerts } = yield* Lanes
          const journal = yield* whole
          const isIdle = Effect.map(journal.lanes, (lanes) =>
            lanes.every(({ backlog, retrying }) => backlog + retrying === 0),
          )
          const found = Effect.map(Effect.all([alerts, isIdle]), ([alerts, isIdle]) => isIdle && isSo(alerts) && alerts)
          return yield* Effect.repeat(Effect.delay(found, "20 millis"), {
            until: (found): found is ReadonlyArray<AlertReport> => found !== false,
          })
        })
      return Effect.gen(function* () {
        yield* session(
          Effect.gen(function* () {
            const journal = yield* whole
            const { ask } = yield* Lanes
            for (const account of ["anna", "bob"]) yield* journal.append(fails(`evt_${account}`, account), ["chat"])
            const before = yield* until((alerts) => alerts.length === 2)
            expect(before.map(({ account }) => account).sort()).toEqual(["anna", "bob"])
            const ofAnna = before.find(({ account }) => account === "anna")?.id ?? 0
            // The acknowledgement's own entry is in the log, and stays there.
            expect(yield* ask("chat", ofAnna, "acknowledgement")).toBe(true)
            yield* until((alerts) => alerts.some(({ status }) => status === "acknowledged"))
            const whileStopped = <A, E>(_: ReadonlyArray<string>, work: Effect.Effect<A, E>) => work
            expect((yield* erase({ archive: journal, whileStopped }, { account: "anna" })).count).toBe(1)
            const after = yield* until(() => true)
            expect(after.map(({ account, status }) => [account, status])).toEqual([
              ["bob", "firing"],
              ["", "acknowledged"],
            ])
            expect(JSON.stringify([yield* journal.alerts, after])).not.toContain("anna")
            // A hash stays, which a guess of the whole key repeats.
            const hash = sha256('anna/"client of anna"').slice(0, 32)
            expect((yield* journal.alerts).map(({ key }) => key)).toContain(hash)
            expect(yield* allThatIsRead(journal)).not.toContain("client of anna")
            const own = (yield* allEvents(journal)).filter(({ event }) => event.type === "relay.alert")
            expect(own).toHaveLength(1)
            expect(JSON.stringify(own)).not.toContain("anna")
          }),
        )
        yield* session(
          Effect.gen(function* () {
            const journal = yield* whole
            const { ask } = yield* Lanes
            yield* journal.append(fails("evt_again", "bob"), ["chat"])
            const [ofBob, ofAnna] = yield* until((alerts) => alerts.some(({ count }) => count === 2))
            expect(JSON.stringify(yield* journal.alerts)).not.toContain("anna")
            expect(yield* ask("chat", ofAnna?.id ?? 0, "resolution")).toBe(true)
            yield* until((alerts) => alerts.length === 1)
            expect(yield* ask("chat", ofBob?.id ?? 0, "resolution")).toBe(true)
            yield* until((alerts) => alerts[0]?.status === "resolved")
          }),
        )
        expect(sent.filter((message) => message.includes("anna")).map((message) => message.split(" ")[1])).toEqual([
          "trigger",
        ])
        expect(sent.at(-1)).toMatch(/^\d+: resolve bob\/"client of bob"$/)
      })
    })
  })
}
