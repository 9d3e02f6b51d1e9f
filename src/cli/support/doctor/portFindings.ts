/** The ports, free or held by the running relay, and how that one is. */
import { Duration, Effect, Result } from "effect"
import type { Status } from "../../../admin/Api.ts"
import * as Address from "../../../config/Address.ts"
import type { RelayConfig } from "../../../config/Config.ts"
import type { ServeError } from "../../../runtime/Runtime.ts"
import { troubles } from "../../commands/status.ts"
import { ask } from "../adminClient.ts"
import { patience } from "../checkSinks.ts"
import { count, span } from "../output.ts"
import { lazily } from "../Program.ts"
import { type Finding, type Findings, finder } from "./Finding.ts"

/** Whether anybody listens there; fails where nobody could. */
const isTaken = Effect.fnUntraced(function* (address: Address.Address, tls?: RelayConfig["tls"]) {
  const { serve } = yield* lazily(() => import("../../../runtime/Runtime.ts"))
  // Whoever comes in this moment shall come again.
  const handler = () => new Response(null, { status: 503, headers: { "retry-after": "1", connection: "close" } })
  return yield* Effect.scoped(serve({ address, handler, ...(tls && { tls }) })).pipe(
    Effect.as(false),
    Effect.catchIf(
      (error) => error.isTaken === true,
      () => Effect.succeed(true),
    ),
  )
})

/** Asked only when somebody listens at its address. */
const askStatus = ask((client) => client.status()).pipe(
  Effect.timeoutOrElse({
    duration: patience,
    orElse: () =>
      Effect.fail({ message: `what listens at admin.listen gives no answer within ${Duration.format(patience)}` }),
  }),
  Effect.result,
)

/** Of a port, and of whether a relay runs. */
const port = (
  key: string,
  address: Address.Address,
  taken: Result.Result<boolean, ServeError>,
  runs: boolean,
): Finding => {
  const at = finder("port", key)
  const where = Address.format(address)
  if (Result.isFailure(taken)) return at("wrong", taken.failure.message)
  if (taken.success) {
    return runs
      ? at("ok", `${where} is held, and the relay runs`)
      : at("wrong", `${where} is taken, and no relay of this config answers: end what listens there, or name another`)
  }
  return runs && address.port !== 0
    ? at("warning", `${where} is free although the relay runs: it was started with another config; restart it`)
    : at("ok", `${where} is free`)
}

/** The relay that answered: that it is there, and what is the matter with it. */
const relay = (status: Status): Findings => {
  const { version, now, startedAt, lanes } = status
  const well = `${version} is up ${span(now - startedAt)} with ${count(lanes.length, "lane")}`
  const ill = troubles(status).map(({ name, severity, lines, todo }) =>
    finder("relay", name)(
      severity === "red" ? "wrong" : "warning",
      [...lines, todo].filter((_) => _ !== "").join("; "),
    ),
  )
  return [finder("relay", "status")("ok", well), ...ill]
}

export const ports = Effect.fnUntraced(function* ({ listen, admin, tls }: RelayConfig) {
  const adminTaken = yield* Effect.result(isTaken(admin.listen))
  const listenTaken = yield* Effect.result(isTaken(listen, tls))
  const status = Result.isSuccess(adminTaken) && adminTaken.success ? yield* askStatus : undefined
  const runs = status !== undefined && Result.isSuccess(status)
  const both = [port("listen", listen, listenTaken, runs), port("admin.listen", admin.listen, adminTaken, runs)]
  const at = finder("relay", "status")
  if (status === undefined) return [...both, at("ok", `none runs: nobody listens at ${Address.format(admin.listen)}`)]
  return [...both, ...(Result.isSuccess(status) ? relay(status.success) : [at("wrong", status.failure.message)])]
})
