/** Logins by token to Apache Kafka, which validates tokens with the keys of a real OAuth server. */
import { afterAll, describe, expect } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Duration, Effect, Fiber, Ref } from "effect"
import { it } from "../../lib/effect.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { reasonToSkip } from "../../parts/Kafka.ts"
import { foreignScope, client as subject } from "../../parts/OAuthServer.ts"
import { follow, forbid, makeTopic } from "../../parts/Topics.ts"
import { entry, reasonOf } from "../samples.ts"
import { suitesWith } from "../thereSink.ts"
import { clients, openKafka } from "./kafkaSink.ts"
import { accounts, append, lake, lanes, settled } from "./load.ts"
import { byToken, lifetime, startOAuthBroker } from "./oauthBroker.ts"

/**
 * Number of restarts of the OAuth server with other keys, and seconds of each outage. The long run has RELAY_ROUNDS=25
 * RELAY_AWAY=15.
 */
const rounds = Number(process.env.RELAY_ROUNDS ?? 1)
const away = Duration.seconds(Number(process.env.RELAY_AWAY ?? 1))
/** Number of tokens of both clients in a round. */
const renewals = 8

suitesWith(reasonToSkip, startOAuthBroker)("a Kafka sink that logs in by tokens", (broker) => {
  afterAll(() => broker().stop())
  const directory = temporaryDirectory("kafka-login-")

  for (const client of clients) {
    describe(client, () => {
      it.live("sends by a token of the OAuth server", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain))
        const received = yield* follow(broker().plain, [topic])
        const sink = yield* openKafka(() => ({ client, topic, ...byToken(broker()) }))
        yield* sink.check
        expect(yield* sink.send([entry(1), entry(2)])).toEqual(new Map())
        expect(yield* Effect.promise(() => received(2))).toHaveLength(2)
      })

      for (const [cause, more, says] of [
        [
          "an audience that the broker does not accept",
          { audience: "another" },
          /the broker refused the token: compare its audience \(another\), issuer \(http:.*invalid_token/,
        ],
        [
          "a scope that the OAuth server refuses",
          { scope: foreignScope },
          /the token endpoint http:\S+ gives no token: invalid_scope.*"oauth.scope"/,
        ],
        [
          "a client that the OAuth server refuses",
          { clientSecret: "canary-wrong" },
          /the token endpoint http:\S+ gives no token: invalid_client.*"oauth.clientSecret"/,
        ],
      ] as const) {
        it.live(`waits for a person after ${cause}, and names it`, function* () {
          const topic = yield* Effect.promise(() => makeTopic(broker().plain))
          const sink = yield* openKafka(() => ({ client, topic, ...byToken(broker(), more) }))
          const reason = yield* reasonOf(sink.send([entry(1)]))
          expect(reason?._tag).toBe("SinkMisconfigured")
          expect(reason?.message).toMatch(says)
          expect(reason?.message).not.toContain("canary")
        })
      }

      it.live("waits for a person if the token's subject may not write to the topic", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain))
        yield* Effect.promise(() => forbid(broker().plain, topic, `User:${subject.id}`))
        const sink = yield* openKafka(() => ({ client, topic, ...byToken(broker()) }))
        const failure = (yield* sink.send([entry(1)])).get(0)
        expect(failure?.reason._tag).toBe("SinkMisconfigured")
        expect(failure?.message).toContain("the user lacks Write (or Describe) on the topic")
      })

      it.live("reads a token from its file at the next login, and names a file without one", function* () {
        const tokenFile = join(directory, client)
        const topic = yield* Effect.promise(() => makeTopic(broker().plain))
        const { brokers, tls } = byToken(broker())
        const sasl = { mechanism: "OAUTHBEARER", tokenFile }
        const sink = yield* openKafka(() => ({ client, topic, brokers, tls, sasl }))
        const missing = yield* reasonOf(sink.send([entry(1)]))
        expect(missing?._tag).toBe("SinkMisconfigured")
        expect(missing?.message).toBe(`the file of "sasl.tokenFile" can't be read (ENOENT): ${tokenFile}`)
        writeFileSync(tokenFile, "two words")
        expect((yield* reasonOf(sink.send([entry(1)])))?.message).toContain("holds no token")
        writeFileSync(tokenFile, `${yield* Effect.promise(broker().server.token)}\n`)
        expect(yield* sink.send([entry(1)])).toEqual(new Map())
      })

      it.live("is unavailable while the OAuth server is, and sends afterwards", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain))
        const sink = yield* openKafka(() => ({ client, topic, ...byToken(broker()) }))
        yield* Effect.promise(broker().server.stop)
        const reason = yield* reasonOf(sink.send([entry(1)])).pipe(
          Effect.ensuring(Effect.promise(broker().server.start)),
        )
        expect(reason?._tag).toBe("SinkUnavailable")
        expect(reason?.message).toContain(`the token endpoint ${broker().server.issuer} can't be reached`)
        expect(yield* sink.send([entry(1)])).toEqual(new Map())
      })
    })
  }

  it.live(
    `both clients: tokens of ${lifetime} s are renewed under load, and the OAuth server restarts with other keys: nothing is lost, order by key is kept`,
    function* () {
      const { plain, server } = broker()
      const run = Effect.fnUntraced(function* (client: string) {
        const topic = yield* Effect.promise(() => makeTopic(plain, 6))
        const sent = yield* Ref.make(0)
        yield* Effect.gen(function* () {
          const loading = yield* Effect.forkChild(load(sent))
          yield* untilGiven(rounds * renewals)
          yield* Fiber.interrupt(loading)
          yield* settled
          expect(yield* lake).toMatchObject({ deadLetters: 0, retrying: 0 })
        }).pipe(Effect.provide(lanes(client, () => ({ topic, ...byToken(broker()) }))))
        const total = yield* Ref.get(sent)
        const { lost, overtaken, twice } = yield* accounts(plain, topic, total)
        console.log(`${client}: ${total} events, ${lost} lost, ${overtaken} overtaken, ${twice} twice`)
        expect({ lost, overtaken }).toEqual({ lost: 0, overtaken: 0 })
      })
      const before = server.given()
      const untilGiven = Effect.fnUntraced(function* (tokens: number) {
        while (server.given() - before < tokens) yield* Effect.sleep("100 millis")
      })
      const rotations = Effect.gen(function* () {
        for (let round = 0; round < rounds; round++) {
          yield* untilGiven((round + 0.5) * renewals)
          yield* Effect.promise(server.stop)
          yield* Effect.sleep(away)
          yield* Effect.promise(server.rotate)
        }
      })
      yield* Effect.all([...clients.map(run), rotations], { concurrency: "unbounded" })
    },
    120_000 * rounds,
  )
})

const perTenth = 50
/** Appends until interrupted. `sent` counts the events. */
const load = (sent: Ref.Ref<number>) =>
  Effect.gen(function* () {
    for (;;) {
      const from = yield* Ref.get(sent)
      yield* append(from, from + perTenth)
      yield* Ref.set(sent, from + perTenth)
      yield* Effect.sleep("100 millis")
    }
  })
