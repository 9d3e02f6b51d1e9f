/**
 * `relay test`: checks that events go to the sinks in the config's `tests`, and that
 * their payloads match the golden files.
 *
 * A test without a webhook must pass for each webhook. A test with an `object` or a
 * `sample` is routed with it, so `where` applies to it.
 */
import { Effect, Result } from "effect"
import { Command } from "effect/cli"
import type { RelayConfig } from "../../config/Config.ts"
import { isRelayEvent } from "../../event/EventType.ts"
import { attempt } from "../../formats/Rendering.ts"
import { takes } from "../../routing/Explanation.ts"
import * as Router from "../../routing/Router.ts"
import { failed } from "../support/CommandError.ts"
import { Json, toggle, withExamples } from "../support/flags.ts"
import * as Golden from "../support/goldenFiles.ts"
import { absentIn, loadForCheck } from "../support/loadConfig.ts"
import { count, instant, type Paint, paint, plain, print, printJson, say } from "../support/output.ts"

export interface Outcome {
  readonly event: string
  readonly webhook: string
  readonly ok: boolean
  readonly expected: ReadonlyArray<string>
  readonly reached: ReadonlyArray<string>
  /** The route that leads to each sink that should not have been reached. */
  readonly because: Readonly<Record<string, string>>
  /** The unmet condition of a route to each sink that should have been reached. */
  readonly unless: Readonly<Record<string, string>>
}

/** Returns the sinks that each test's event reaches. */
const outcomes = (config: RelayConfig, samples: ReadonlyArray<Golden.Sampled>): ReadonlyArray<Outcome> => {
  const names = config.webhooks.map(({ name }) => name)
  const router = Router.of(config)
  return samples.flatMap(({ test: { event, webhook, to, at = Golden.fixedTime }, envelope }) => {
    const by = isRelayEvent(event) ? ["relay"] : webhook === undefined ? names : [webhook]
    return by.map((name): Outcome => {
      // If a condition can't be evaluated, the event is quarantined, and `explain` says why.
      const reached = Result.getOrElse(
        attempt(() => router.route(name, envelope, at)),
        (): ReadonlyArray<string> => [],
      )
      const routes = router.explain(name, event, { envelope, at })
      const taking = routes.filter(takes)
      const differing = routes.filter(({ verdict }) => verdict === "where differs" || verdict === "outside hours")
      const missed = to.filter((sink) => !reached.includes(sink))
      const unexpected = reached.filter((sink) => !to.includes(sink))
      return {
        event,
        webhook: name,
        ok: unexpected.length === 0 && missed.length === 0,
        expected: to,
        reached,
        because: Object.fromEntries(
          unexpected.map((sink) => [sink, taking.find(({ sinks }) => sinks.includes(sink))?.route ?? ""]),
        ),
        unless: Object.fromEntries(
          missed.flatMap((sink) => {
            const route = differing.find(({ sinks }) => sinks.includes(sink))
            if (route === undefined) return []
            const condition =
              route.verdict === "outside hours"
                ? `applies within ${route.because}, and the test is at ${instant(at)}; its "at" sets another time`
                : `asks that ${route.because}`
            return [[sink, `"${route.route}" ${condition}`]]
          }),
        ),
      }
    })
  })
}

const difference = ({ event, webhook, expected, reached, because, unless }: Outcome): string =>
  [
    `FAILED  ${plain(event)} by ${plain(webhook)}`,
    ...expected
      .filter((sink) => !reached.includes(sink))
      .map((sink) => {
        const condition = unless[sink]
        return `  - ${plain(sink)}: no route leads there${condition === undefined ? "" : `; ${plain(condition)}`}`
      }),
    ...Object.entries(because).map(
      ([sink, route]) => `  + ${plain(sink)}: not expected; the route "${plain(route)}" leads there`,
    ),
  ].join("\n")

const changes = ({ event, sink, file, missing, diff }: Golden.Compared, style: Paint): string => {
  if (missing) return `FAILED  ${plain(event)} to ${plain(sink)}: ${plain(file)} is missing next to the config`
  return [
    `FAILED  ${plain(event)} to ${plain(sink)}: the payload differs from ${plain(file)}`,
    ...diff.map((line) => {
      const text = `  ${plain(line)}`
      return line.startsWith("+") ? style("green", text) : line.startsWith("-") ? style("red", text) : text
    }),
  ].join("\n")
}

export const test = Command.make(
  "test",
  {
    update: toggle("update", "Write the golden files from the current payloads"),
  },
  Effect.fn(function* ({ update }) {
    const loaded = yield* loadForCheck
    const { file, config } = loaded
    const files = yield* Golden.beside(file)
    const samples = yield* Golden.sampled(config, files)
    const found = outcomes(config, samples)
    const payloads = yield* Golden.compare(loaded, samples, files, update)
    const [astray, changed] = [found.filter(({ ok }) => !ok), payloads.filter(({ ok }) => !ok)]
    const skipped = payloads.filter(({ absent }) => absent.length > 0)
    const all = found.length + payloads.length - skipped.length
    const passed = all - astray.length - changed.length
    if (yield* Json) {
      yield* printJson({ ok: passed === all, passed, outcomes: found, payloads, ...absentIn(loaded) })
      return passed === all ? undefined : yield* failed()
    }
    if (config.tests.length === 0) {
      return yield* say(
        `${plain(file)} has no "tests": { "event": "appointment.created", "to": ["audit"] } is an example`,
      )
    }
    const style = yield* paint
    for (const result of astray) yield* print(`${difference(result)}\n`)
    for (const result of changed) yield* print(`${changes(result, style)}\n`)
    for (const { file } of payloads.filter(({ written }) => written)) yield* say(`${plain(file)} written`)
    for (const { event, sink, absent } of skipped) {
      yield* say(`${plain(event)} to ${plain(sink)} was not compared: its payload shows ${absent.join(", ")}`)
    }
    yield* print(`${passed} of ${count(all, "test")} passed`)
    if (astray.length > 0) {
      return yield* failed(`\`relay explain ${plain(astray[0]?.event ?? "")}\` shows why events are routed as they are`)
    }
    if (changed.length > 0)
      return yield* failed("`relay test --update` writes the golden files from the current payloads")
  }),
).pipe(
  withExamples({
    "relay test -c new.config.json": "Before a new config goes live",
    "relay test --update": "Write the golden files, for review",
  }),
)
