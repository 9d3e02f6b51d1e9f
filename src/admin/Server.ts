/** The admin server: the probes, and the API and `/metrics` behind the guard. */
import { Console, Context, Effect, Layer, Logger, References } from "effect"
import { HttpRouter, HttpServer, HttpServerResponse } from "effect/http"
import { ActiveConfig } from "../ActiveConfig.ts"
import { Lanes } from "../delivery/Lanes.ts"
import { Ingest } from "../ingest/Ingest.ts"
import { SenderSilence } from "../ingest/SenderSilence.ts"
import { Archive } from "../journal/Archive.ts"
import { Journal } from "../journal/Journal.ts"
import { Operator } from "../journal/Operator.ts"
import { Reload, Restart } from "../reload/Reload.ts"
import { userAgent } from "../runtime/HttpTransport.ts"
import * as Problem from "../runtime/Problem.ts"
import type { Handler } from "../runtime/RequestGuard.ts"
import { Stderr } from "../runtime/Stderr.ts"
import * as AdminGuard from "./AdminGuard.ts"
import { bodyProblem } from "./BodyLimit.ts"
import { Caller, operatorOf } from "./Caller.ts"
import * as Handlers from "./Handlers.ts"
import * as Metrics from "./Metrics.ts"
import { contentType } from "./MetricsText.ts"
import * as Probes from "./Probes.ts"
import { RelayInfo } from "./RelayInfo.ts"

const metrics = HttpRouter.use(
  Effect.fnUntraced(function* (router) {
    const context = yield* Effect.context<
      ActiveConfig | Archive | Ingest | Journal | Lanes | RelayInfo | Reload | Restart | SenderSilence
    >()
    yield* router.add(
      "GET",
      "/metrics",
      Metrics.render.pipe(
        Effect.map((text) => HttpServerResponse.text(text, { contentType })),
        Effect.catchTag("JournalError", ({ message }) =>
          Effect.succeed(HttpServerResponse.text(`${message}\n`, { status: 503 })),
        ),
        Effect.provideContext(context),
      ),
    )
  }),
)

/** Returns the program that sent the request. */
const clientOf = ({ headers }: Request): string => {
  if (headers.has("sec-fetch-site")) return "the page"
  return headers.get("user-agent") === userAgent ? "the command line" : "the admin API"
}

/** The router handles requests without a context, so without this their log lines would bypass the relay's log. */
const logging = Effect.gen(function* () {
  return Context.make(Logger.CurrentLoggers, yield* Logger.CurrentLoggers).pipe(
    Context.add(References.MinimumLogLevel, yield* References.MinimumLogLevel),
    Context.add(Console.Console, yield* Console.Console),
    Context.add(Stderr, yield* Stderr),
  )
})

export const handler = Effect.gen(function* () {
  const { admin } = (yield* ActiveConfig).current.config
  const services = yield* Effect.context<
    ActiveConfig | Archive | Ingest | Journal | Lanes | RelayInfo | Reload | Restart | SenderSilence
  >()
  const admit = AdminGuard.make(admin)
  const app = Layer.mergeAll(Handlers.layer, metrics).pipe(
    Layer.provide(HttpServer.layerServices),
    Layer.provide(
      Layer.succeedContext(
        Context.pick(
          ActiveConfig,
          Archive,
          Ingest,
          Journal,
          Lanes,
          RelayInfo,
          Reload,
          Restart,
          SenderSilence,
        )(services),
      ),
    ),
  )
  const router = yield* Effect.acquireRelease(
    Effect.sync(() => HttpRouter.toWebHandler(app, { disableLogger: true })),
    ({ dispose }) => Effect.promise(dispose),
  )
  const log = yield* logging
  const handle: Handler = (request) => {
    const { name, role, problem = bodyProblem(request) } = admit(request)
    if (problem !== undefined) return Problem.toResponse(problem)
    const caller = { name, role, by: clientOf(request) }
    const known = Context.add(Context.add(log, Caller, caller), Operator, operatorOf(caller))
    return router.handler(request, known)
  }
  return yield* Probes.before(handle)
})
