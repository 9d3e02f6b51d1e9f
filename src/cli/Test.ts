/**
 * `relay test`: do events still go where the config's `tests` say?
 *
 * A test without a webhook must hold for each of them. One with an `object` is
 * routed with that object, so `where` sees it.
 */
import { Clock, Effect } from "effect"
import { Command } from "effect/cli"
import type { RelayConfig } from "../config/Config.ts"
import { isRelayEvent } from "../event/EventType.ts"
import * as Router from "../routing/Router.ts"
import { failed } from "./CommandError.ts"
import { loadConfig } from "./Loading.ts"
import { Json } from "./Options.ts"
import { count, plain, print, printJson, say } from "./Output.ts"
import { sample } from "./Sample.ts"

export interface Outcome {
  readonly event: string
  readonly webhook: string
  readonly ok: boolean
  readonly expected: ReadonlyArray<string>
  readonly reached: ReadonlyArray<string>
  /** For each sink that should not have been reached, the route that leads there. */
  readonly because: Readonly<Record<string, string>>
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Runs the tests. `now` is in epoch milliseconds and dates the samples. */
export const outcomes = (config: RelayConfig, now: number): ReadonlyArray<Outcome> => {
  const names = config.webhooks.map(({ name }) => name)
  const router = Router.make(config.routes, names)
  return config.tests.flatMap(({ event, webhook, object, to }) => {
    const by = isRelayEvent(event) ? ["relay"] : webhook === undefined ? names : [webhook]
    const envelope = sample(event, now, isObject(object) ? { object } : {})
    return by.map((name): Outcome => {
      const reached = router.route(name, envelope)
      const taking = router.explain(name, event, envelope).filter(({ verdict }) => verdict === "matches")
      const unexpected = reached.filter((sink) => !to.includes(sink))
      return {
        event,
        webhook: name,
        ok: unexpected.length === 0 && to.every((sink) => reached.includes(sink)),
        expected: to,
        reached,
        because: Object.fromEntries(
          unexpected.map((sink) => [sink, taking.find(({ sinks }) => sinks.includes(sink))?.route ?? ""]),
        ),
      }
    })
  })
}

const diff = ({ event, webhook, expected, reached, because }: Outcome): string =>
  [
    `FAILED  ${plain(event)} by ${plain(webhook)}`,
    ...expected.filter((sink) => !reached.includes(sink)).map((sink) => `  - ${plain(sink)}: no route leads there`),
    ...Object.entries(because).map(
      ([sink, route]) => `  + ${plain(sink)}: not expected; the route "${plain(route)}" leads there`,
    ),
  ].join("\n")

export const test = Command.make(
  "test",
  {},
  Effect.fn(function* () {
    const { file, config } = yield* loadConfig
    const found = outcomes(config, yield* Clock.currentTimeMillis)
    const failures = found.filter(({ ok }) => !ok)
    if (yield* Json) {
      yield* printJson({ ok: failures.length === 0, passed: found.length - failures.length, outcomes: found })
      return failures.length === 0 ? undefined : yield* failed()
    }
    if (config.tests.length === 0) {
      return yield* say(`${plain(file)} has no "tests": { "event": "appointment.created", "to": ["audit"] } is one`)
    }
    if (failures.length > 0) yield* print(`${failures.map(diff).join("\n\n")}\n`)
    yield* print(`${found.length - failures.length} of ${count(found.length, "test")} passed`)
    if (failures.length > 0) {
      return yield* failed(`\`relay explain ${plain(failures[0]?.event ?? "")}\` says why events go where they go`)
    }
  }),
).pipe(
  Command.withDescription("Check that events go where the config's tests say"),
  Command.withExamples([{ command: "relay test -c new.config.json", description: "Before a new config goes live" }]),
)
