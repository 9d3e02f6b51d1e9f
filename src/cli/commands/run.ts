/**
 * `relay run`: serves until a signal, then drains.
 *
 * The first SIGTERM or SIGINT stops it (`lifecycle.ts`) and exits with 0. A second
 * exits immediately.
 * SIGHUP reloads the config, and so does `--watch` when a file of it changes.
 * SIGUSR1 and SIGUSR2, which log rotation sends to many servers, are logged.
 * `relay restart` may stop it too, and it exits with 75. A
 * journal that breaks ends the process with 74, because a 2xx would no longer
 * mean that the event is durable.
 */
import { Context, Effect, Latch, Layer } from "effect"
import { Command } from "effect/cli"
import * as Address from "../../config/Address.ts"
import type { RelayConfig } from "../../config/Config.ts"
import { logDiagnostics } from "../../config/diagnostics/Diagnostic.ts"
import { type Loaded, warningsOf } from "../../config/load/Load.ts"
import { ReadFiles } from "../../config/load/References.ts"
import * as Monotonic from "../../event/Monotonic.ts"
import { describeHours } from "../../event/Quantities.ts"
import { repeating } from "../../event/Rounds.ts"
import { Journal } from "../../journal/Journal.ts"
import { Turn } from "../../journal/JournalContext.ts"
import * as Relay from "../../Relay.ts"
import { reloadWhen, triggers } from "../../reload/Reload.ts"
import * as Router from "../../routing/Router.ts"
import * as Notify from "../../runtime/Notify.ts"
import { Doors, predecessor } from "../../runtime/ProcessHandover.ts"
import { onSignal } from "../../runtime/Runtime.ts"
import { relayVersion } from "../../runtime/Version.ts"
import { io } from "../support/CommandError.ts"
import { toggle, withExamples } from "../support/flags.ts"
import * as Logging from "../support/lifecycle.ts"
import { makeRestarts, makeStop, notifySystemd, type Restarts, type Stop } from "../support/lifecycle.ts"
import { configFlag, loadConfig, loadQuietly } from "../support/loadConfig.ts"
import { plain, say, sayWhole, table } from "../support/output.ts"
import { Program } from "../support/Program.ts"

export interface Opening {
  readonly config: RelayConfig
  readonly file: string
  /** The command that starts this program, such as `relay`. */
  readonly command: string
  /** ` -c FILE`, or empty. */
  readonly configFlag: string
  /** The address that it listens on, with the actual port instead of 0. */
  readonly deliveries: Address.Address
  readonly admin: Address.Address
}

const examples = ["appointment.created", "appointment.meeting.create_failed"] as const

/** Returns a command to paste for an ordinary event, and another for a failure if that goes to other sinks. */
const tryLines = ({ config, command, configFlag }: Opening): ReadonlyArray<string> => {
  const [webhook] = config.webhooks
  if (webhook === undefined) return []
  const router = Router.of(config)
  const sinks = examples.map((type) => router.routeType(webhook.name, type).join(", "))
  const chosen = examples.filter((_, index) => index === 0 || sinks[index] !== sinks[0])
  return chosen.map((type) => `${command} trigger ${type}${configFlag}`)
}

/** Returns the text that `run` prints at the start: its addresses, its sinks and commands to try. */
export const opening = (facts: Opening): string => {
  const { config, file, deliveries, admin } = facts
  const scheme = config.tls === undefined ? "http" : "https"
  const at = Address.format(deliveries)
  const origin = deliveries.unix === undefined ? `${scheme}://${at}` : `${at} `
  const types = new Map(config.sinks.map(({ name, type }) => [name, type]))
  const sinks = (names: ReadonlyArray<string>) => names.map((name) => `${name} (${types.get(name) ?? "?"})`).join(", ")
  const except = (patterns: ReadonlyArray<string>) => (patterns.length === 0 ? "" : ` except ${patterns.join(", ")}`)
  return [
    `relay ${relayVersion} with ${plain(file)}`,
    "",
    "listens",
    table([
      ...config.webhooks.map(({ name, path }) => [name, `${origin}${path}`]),
      ["admin", `http://${Address.format(admin)}/  (a page; /healthz, /readyz, /metrics)`],
    ]),
    "",
    "routes",
    table(
      config.routes.map(({ name, match, except: not, within, to }) => [
        name,
        `${match.join(", ")}${except(not)}${within === undefined ? "" : ` within ${describeHours(within)}`}`,
        `→ ${sinks(to)}`,
      ]),
    ),
    "",
    "try it",
    ...tryLines(facts).map((line) => `  ${line}`),
    "",
  ].join("\n")
}

interface Serving {
  readonly json: boolean
  /** Opens when a reload is requested. */
  readonly triggered: Latch.Latch
  /** Called each time the relay starts to listen. */
  readonly started: Stop["started"]
  readonly restarts: Restarts
}

/** Serves until another process can take over. Returns that process and the active config. */
const serve = Effect.fnUntraced(function* (loaded: Loaded, { json, triggered, started, restarts }: Serving) {
  const { file, config } = loaded
  const { command, entry } = yield* Program
  const load = Effect.provideContext(loadQuietly, yield* Effect.context<Effect.Services<typeof loadQuietly>>())
  const { restart, isHandedOver, doors, turn } = restarts
  const options = { version: relayVersion, entry, load, restart, isHandedOver }
  const from = yield* Monotonic.now
  const context = yield* Layer.build(Relay.layer(loaded, options)).pipe(
    Effect.provideService(Doors, doors.open),
    Effect.provideService(Turn, turn),
  )
  yield* restarts.opened(config, (yield* Monotonic.now) - from)
  // From here on, the log also goes to the collector, if the config has one.
  const logged = Effect.provideContext(context)
  if (json) yield* logged(logDiagnostics(warningsOf(loaded)))
  yield* Effect.forkScoped(logged(reloadWhen(triggered)))
  const listening = Context.get(context, Relay.Listening)
  const { deliveries, admin } = listening
  started(listening)
  if (json)
    yield* Effect.logInfo("started").pipe(
      Effect.annotateLogs({ deliveries: Address.format(deliveries), admin: Address.format(admin) }),
      logged,
    )
  else yield* sayWhole(opening({ config, file, command, configFlag: yield* configFlag, deliveries, admin }))
  const broken = Effect.catchTag(Context.get(context, Journal).broken, "JournalBroken", ({ message }) =>
    Effect.fail(io(`the journal is broken, so the relay exits: ${message}`)),
  )
  const notifying = Effect.provideContext(notifySystemd, context)
  const attempt = yield* Effect.raceFirst(Effect.raceFirst(broken, notifying), restarts.asked)
  return { attempt, config: listening.config() }
}, Effect.scoped)

/**
 * Serves until another process has taken over. If this process takes over itself, it
 * first waits for the previous process.
 */
const serveInTurn = Effect.fnUntraced(function* (options: Omit<Serving, "restarts">, startAgain: Stop["startAgain"]) {
  const first = yield* predecessor
  const serving = Effect.gen(function* () {
    const check = Effect.provideContext(loadQuietly, yield* Effect.context<Effect.Services<typeof loadQuietly>>())
    const restarts = yield* makeRestarts({ first, check, startAgain })
    let loaded = yield* options.json ? loadQuietly : loadConfig
    yield* restarts.succeed(loaded.config)
    for (;;) {
      const { attempt, config } = yield* serve(loaded, { ...options, restarts })
      if (yield* restarts.handOver(attempt)) return
      loaded = { ...loaded, config }
    }
  })
  yield* Effect.tapError(serving, ({ message }) => first?.refuse(message) ?? Effect.void)
}, Effect.scoped)

/** Logs SIGUSR1 and SIGUSR2, which log rotation sends to many servers, instead of ending the process. */
const ignoreRotation = Effect.gen(function* () {
  const came = Latch.makeUnsafe(false)
  yield* onSignal("SIGUSR1", () => came.openUnsafe())
  yield* onSignal("SIGUSR2", () => came.openUnsafe())
  const log = Effect.logWarning(
    "SIGUSR1 or SIGUSR2 was ignored: the relay logs to stderr and has no file to open again (SIGHUP reloads the config, SIGTERM stops it)",
  )
  return yield* repeating("a log line", came.await.pipe(Effect.andThen(came.close), Effect.andThen(log)))
})

export const run = Command.make(
  "run",
  {
    format: Logging.formatFlag,
    watch: toggle("watch", "Reload the config when it changes, or a file that it names"),
  },
  Effect.fn(function* ({ format, watch }) {
    const notify = yield* Notify.make((yield* Program).env)
    const json = yield* Logging.isJson(format)
    yield* Logging.neverBlock(json)
    const { stopped, started, startAgain, ended } = makeStop()
    const files = watch ? new Map<string, string>() : undefined
    const triggered = yield* triggers(files)
    const drained = "drained, everything accepted is on disk"
    yield* Effect.raceAllFirst([stopped, serveInTurn({ json, triggered, started }, startAgain), ignoreRotation]).pipe(
      Effect.andThen(json ? Effect.logInfo(drained) : say(`relay: ${drained}`)),
      Effect.andThen(ended),
      Effect.provideService(ReadFiles, files),
      Effect.provideService(Notify.Notify, notify),
      Effect.provide(Logging.layer(json)),
    )
  }, Effect.scoped),
).pipe(
  withExamples({
    "relay run": "With relay.config.json, or the embedded defaults without one",
    "relay run -c /etc/relay/relay.config.json": "As a service: the log is JSON lines",
  }),
)
