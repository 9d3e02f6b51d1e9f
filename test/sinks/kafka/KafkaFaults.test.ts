/**
 * A broker that dies, freezes or throttles the sink, with the relay's own lanes. RELAY_ROUNDS sets the number of deaths
 * (the long campaign: RELAY_ROUNDS=20).
 */
import { expect } from "bun:test"
import { Effect, Exit, Fiber, Scope } from "effect"
import { it } from "../../lib/effect.ts"
import { follow, limit, makeTopic, sizeOf } from "../../parts/Topics.ts"
import { entry } from "../samples.ts"
import { clients, openKafka, withOwnBroker } from "./kafkaSink.ts"
import { accounts, append, lake, lanes, numberOf, settled } from "./load.ts"

const rounds = Number(process.env.RELAY_ROUNDS ?? 1)
const perSecond = 2_000
withOwnBroker("the Kafka sink when its broker fails", (broker) => {
  for (const client of clients) {
    const count = client === "platformatic" ? rounds : Math.ceil(rounds / 4)

    it.live(
      `${client}: ${count} kills -9 at ${perSecond} events/s: nothing is lost, order by key is kept, duplicates are bounded`,
      function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain, 6))
        const total = yield* Effect.gen(function* () {
          let sent = 0
          for (let round = 0; round < count; round++) {
            for (let tenth = 0; tenth < 30; tenth++) {
              if (tenth === 8) yield* Effect.promise(() => broker().kill())
              if (tenth === 15) yield* Effect.forkChild(Effect.promise(() => broker().start()))
              yield* append(sent, sent + perSecond / 10)
              sent += perSecond / 10
              yield* Effect.sleep("100 millis")
            }
            yield* settled
          }
          const lane = yield* lake
          expect(lane?.deadLetters).toBe(0)
          return { sent, bound: (lane?.duplicateBound ?? 0) * count }
        }).pipe(Effect.provide(lanes(client, () => ({ brokers: [broker().plain], topic }))))

        const { lost, overtaken, twice } = yield* accounts(broker().plain, topic, total.sent)
        expect({ lost, overtaken }).toEqual({ lost: 0, overtaken: 0 })
        expect(twice).toBeLessThanOrEqual(total.bound)
        console.log(`${client}: ${total.sent} events, ${count} kills, ${twice} twice (bound ${total.bound})`)
      },
      60_000 * (count + 1),
    )

    it.live(
      `${client}: a broker that freezes loses nothing, and its events come when it thaws`,
      function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain, 3))
        yield* Effect.gen(function* () {
          yield* append(0, 100)
          yield* settled
          broker().signal("SIGSTOP")
          yield* append(100, 1_000)
          yield* Effect.sleep("5 seconds")
          broker().signal("SIGCONT")
          yield* settled
          const lane = yield* lake
          expect(lane).toMatchObject({ deadLetters: 0, retrying: 0 })
        }).pipe(Effect.provide(lanes(client, () => ({ brokers: [broker().plain], topic }))))
        const received = yield* follow(broker().plain, [topic])
        const numbers = (yield* Effect.promise(() => received(1_000))).map(({ value }) => numberOf(value))
        expect(new Set(numbers).size).toBe(1_000)
      },
      60_000,
    )

    it.live(
      `${client}: a broker that throttles is left alone for as long as it asks, and everything comes once`,
      function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain))
        const clientId = `slow-${client}`
        // The throttle lasts about five seconds, longer than the sink waits for an answer. Events sent during it would
        // be sent again.
        yield* Effect.promise(() => limit(broker().plain, clientId, 50_000))
        const config = () => ({ brokers: [broker().plain], topic, clientId, batch: { maxEvents: 250 } })
        yield* Effect.gen(function* () {
          yield* append(0, 500, "x".repeat(800))
          let said = ""
          while (!said.includes("throttles")) {
            said = (yield* lake)?.message ?? ""
            yield* Effect.sleep("10 millis")
          }
          expect(said).toMatch(
            new RegExp(
              `^kafka ${broker().plain} throttles the client "${clientId}": a quota .* used up.* raise the quota`,
            ),
          )
          yield* settled
          expect(yield* lake).toMatchObject({ deadLetters: 0, retrying: 0 })
        }).pipe(Effect.provide(lanes(client, config)))
        expect(yield* Effect.promise(() => sizeOf(broker().plain, topic))).toBe(500)
      },
      60_000,
    )

    it.live(
      `${client}: a stop in the middle of a batch does not wait for a broker that is frozen`,
      function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain))
        const scope = yield* Scope.make()
        const sink = yield* Scope.provide(
          openKafka(() => ({ client, brokers: [broker().plain], topic, requestTimeout: "10 minutes" })),
          scope,
        )
        yield* sink.send([entry(1)])
        broker().signal("SIGSTOP")
        yield* Effect.addFinalizer(() => Effect.sync(() => broker().signal("SIGCONT")))
        const sending = yield* Effect.forkChild(sink.send([entry(2)]), { startImmediately: true })
        yield* Effect.sleep("100 millis")
        yield* Fiber.interrupt(sending)
        yield* Scope.close(scope, Exit.void)
      },
      60_000,
    )
  }
})
