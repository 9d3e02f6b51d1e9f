/**
 * `relay run`: serves until a signal, then drains.
 *
 * The first SIGTERM or SIGINT drains and ends with 0; a second ends at once.
 * SIGHUP loads the config anew, and so does `--watch` when the file changes.
 * A journal that breaks ends the process with 74, because what it might still
 * answer would no longer be true.
 */
import { Context, Effect, type Latch, Layer, Option } from "effect"
import { Command, Flag } from "effect/cli"
import * as Address from "../../config/Address.ts"
import type { RelayConfig } from "../../config/Config.ts"
import * as Router from "../../routing/Router.ts"
import { io } from "../support/CommandError.ts"
import { configFlag, loadConfig, loadQuietly } from "../support/loadConfig.ts"
import * as Logging from "../support/logging.ts"
import { Config } from "../support/options.ts"
import { plain, say, table } from "../support/output.ts"
import { lazily, Program, version } from "../support/Program.ts"

export interface Opening {
  readonly config: RelayConfig
  readonly file: string
  /** What a person types to start this program: `relay`. */
  readonly command: string
  /** ` -c FILE`, or nothing. */
  readonly configFlag: string
  /** Where it listens, the real ports. */
  readonly deliveries: Address.Address
  readonly admin: Address.Address
}

const examples = ["appointment.created", "appointment.meeting.create_failed"] as const

/** A line to paste for an ordinary event, and one for a failure where that goes elsewhere. */
const lines = ({ config, command, configFlag }: Opening): ReadonlyArray<string> => {
  const [webhook] = config.webhooks
  if (webhook === undefined) return []
  const router = Router.of({ ...config, webhooks: [webhook] })
  const sinks = examples.map((type) => router.routeType(webhook.name, type).join(", "))
  const chosen = examples.filter((_, index) => index === 0 || sinks[index] !== sinks[0])
  return chosen.map((type) => `${command} trigger ${type}${configFlag}`)
}

/** What start-up prints: where it listens, where events go, and what to try. */
export const opening = (facts: Opening): string => {
  const { config, file, deliveries, admin } = facts
  const scheme = config.tls === undefined ? "http" : "https"
  const types = new Map(config.sinks.map(({ name, type }) => [name, type]))
  const sinks = (names: ReadonlyArray<string>) => names.map((name) => `${name} (${types.get(name) ?? "?"})`).join(", ")
  const except = (patterns: ReadonlyArray<string>) => (patterns.length === 0 ? "" : ` except ${patterns.join(", ")}`)
  return [
    `relay ${version} with ${plain(file)}`,
    "",
    "listens",
    table([
      ...config.webhooks.map(({ name, path }) => [name, `${scheme}://${Address.format(deliveries)}${path}`]),
      ["admin", `http://${Address.format(admin)}/  (/healthz, /readyz, /metrics)`],
    ]),
    "",
    "routes",
    table(
      config.routes.map(({ name, match, except: not, to }) => [
        name,
        `${match.join(", ")}${except(not)}`,
        `→ ${sinks(to)}`,
      ]),
    ),
    "",
    "try it",
    ...lines(facts).map((line) => `  ${line}`),
    "",
  ].join("\n")
}

/** `triggered` is opened by what asks for a reload. */
const serve = Effect.fnUntraced(function* (json: boolean, triggered: Latch.Latch) {
  const { file, config, warnings } = yield* json ? loadQuietly : loadConfig
  if (json) yield* Effect.forEach(warnings, ({ line, message }) => Effect.logWarning(`${file}:${line}: ${message}`))
  const { command, entry } = yield* Program
  const [Relay, { reloadWhen }, { Journal }, Service] = yield* Effect.all([
    lazily(() => import("../../Relay.ts")),
    lazily(() => import("../../reload/Reload.ts")),
    lazily(() => import("../../journal/Journal.ts")),
    lazily(() => import("../support/systemd.ts")),
  ])
  const load = Effect.provideContext(loadQuietly, yield* Effect.context<Effect.Services<typeof loadQuietly>>())
  const context = yield* Layer.build(Relay.layer(config, { version, configFile: file, entry, load }))
  yield* Effect.forkScoped(Effect.provideContext(reloadWhen(triggered), context))
  const { deliveries, admin } = Context.get(context, Relay.Listening)
  if (json)
    yield* Effect.logInfo("started").pipe(
      Effect.annotateLogs({ deliveries: Address.format(deliveries), admin: Address.format(admin) }),
    )
  else yield* say(opening({ config, file, command, configFlag: yield* configFlag, deliveries, admin }))
  const broken = Effect.catchTag(Context.get(context, Journal).broken, "JournalBroken", ({ message }) =>
    Effect.fail(io(`the journal can't go on, so the relay ends: ${message}`)),
  )
  return yield* Effect.raceFirst(broken, Effect.provideContext(Service.tell, context))
}, Effect.scoped)

export const run = Command.make(
  "run",
  {
    format: Logging.formatFlag,
    watch: Flag.Boolean("watch").pipe(
      Flag.withDescription("Load the config anew when its file changes"),
      Flag.withoutNegation,
      Flag.withDefault(false),
    ),
  },
  Effect.fn(function* ({ format, watch }) {
    const [{ firstSignal }, Notify, { triggers }, { defaultFile }] = yield* Effect.all([
      lazily(() => import("../../runtime/Runtime.ts")),
      lazily(() => import("../../runtime/Notify.ts")),
      lazily(() => import("../../reload/Watch.ts")),
      lazily(() => import("../../config/load/Load.ts")),
    ])
    const notify = yield* Notify.make((yield* Program).env)
    const json = yield* Logging.isJson(format)
    const stopping = firstSignal.pipe(
      Effect.tap((signal) => Effect.logInfo(`${signal}: draining; a second one ends the relay at once`)),
      Effect.andThen(notify.say("STOPPING=1", "STATUS=draining")),
    )
    // Before the config is loaded, so that no change falls in between.
    const file = Option.getOrElse(yield* Config, () => defaultFile)
    const triggered = yield* triggers(watch ? file : undefined)
    const drained = "drained, everything accepted is on disk"
    yield* Effect.raceFirst(stopping, serve(json, triggered)).pipe(
      Effect.andThen(json ? Effect.logInfo(drained) : say(`relay: ${drained}`)),
      Effect.provideService(Notify.Notify, notify),
      Effect.provide(Logging.layer(json)),
    )
  }, Effect.scoped),
).pipe(
  Command.withDescription("Receive, keep and relay deliveries until stopped"),
  Command.withExamples([
    { command: "relay run", description: "With relay.config.json here, or the embedded defaults where there is none" },
    { command: "relay run -c /etc/relay/relay.config.json", description: "As a service: the log is JSON lines" },
  ]),
)
