/** Checks the ports, free or taken by the running relay, and the status of that relay. */
import { Effect, Result } from "effect"
import type { Status } from "../../../admin/Api.ts"
import { health } from "../../../admin/Health.ts"
import { levelOf, type State } from "../../../admin/StatusProblem.ts"
import * as Address from "../../../config/Address.ts"
import type { RelayConfig } from "../../../config/Config.ts"
import * as Holders from "../../../runtime/Holders.ts"
import type { ServeError } from "../../../runtime/Runtime.ts"
import { ask } from "../adminClient.ts"
import { withDeadline } from "../deadline.ts"
import { count, span } from "../output.ts"
import { lazily } from "../Program.ts"
import { type Finding, type Findings, finder } from "./Finding.ts"
import { judge } from "./holderFinding.ts"

/** Whether something listens there; fails where nothing can. */
const isTaken = Effect.fnUntraced(function* (
  address: Address.Address,
  { tls, socket }: Pick<RelayConfig, "tls" | "socket"> = {},
) {
  const { serve } = yield* lazily(() => import("../../../runtime/Runtime.ts"))
  // A delivery that arrives at this moment is sent again.
  const handler = () => new Response(null, { status: 503, headers: { "retry-after": "1", connection: "close" } })
  return yield* Effect.scoped(serve({ address, handler, socket, ...(tls && { tls }) })).pipe(
    Effect.as(false),
    Effect.catchIf(
      (error) => error.isTaken === true,
      () => Effect.succeed(true),
    ),
  )
})

const askStatus = ask((client) => client.status()).pipe(
  withDeadline((time) => Effect.fail({ message: `what listens at admin.listen does not answer within ${time}` })),
  Effect.result,
)

/** Whether a relay of this config answered, and the config's file. */
interface Known {
  readonly runs: boolean
  readonly file: string
  /** Whether this user may look at every process, and listen on every port. */
  readonly seesAll: boolean
}

export const port = (
  key: string,
  address: Address.Address,
  taken: Result.Result<boolean, ServeError>,
  { runs, file, seesAll }: Known,
): Finding => {
  const at = finder("port", key)
  const where = Address.format(address)
  if (Result.isFailure(taken)) {
    const { isDenied, message } = taken.failure
    // The service may have the privilege.
    if (isDenied === true && !seesAll) {
      return at("warning", `${where} was not checked: this user may not listen there; run this command as root`)
    }
    return at("wrong", message)
  }
  if (taken.success) {
    if (runs) return at("ok", `${where} is taken by the running relay`)
    const otherwise = `use another ${address.unix === undefined ? "port" : "path"}`
    const holder = address.unix === undefined ? Holders.portHolder(address.port) : undefined
    return at(...judge(holder, file, { what: `${where} is taken`, otherwise }))
  }
  return runs && (address.port !== 0 || address.unix !== undefined)
    ? at("warning", `${where} is free although the relay runs: it was started with another config, so restart it`)
    : at("ok", `${where} is free`)
}

/** Certificates that were renewed, and not yet taken. */
const untaken = ({ certificates }: Status, config: RelayConfig): Findings =>
  certificates
    .filter((one) =>
      config.certificates.some(({ key, fingerprint }) => key === one.key && fingerprint !== one.fingerprint),
    )
    .map(({ key }) =>
      finder("certificate", key)("warning", "it was renewed, and the running relay has the one before: `relay reload`"),
    )

/** Findings on the config's own secrets and certificates. */
const ofConfig: ReadonlyArray<State> = [
  "no-valid-secret",
  "secret-expired",
  "secret-expiring",
  "certificate-expired",
  "certificate-expiring",
  "certificate-incomplete",
  "certificate-issuer-unknown",
]

/** Texts, some of which end as sentences do, in the one line that a finding has. */
const sentences = (texts: ReadonlyArray<string>): string =>
  texts
    .map((text) => text.trim())
    .filter((text) => text !== "")
    .reduce((before, text) => `${before}${/[.!?:]$/.test(before) ? "" : "."} ${text[0]?.toUpperCase()}${text.slice(1)}`)

/** The relay that answered, and its problems. */
const relay = (status: Status, config: RelayConfig): Findings => {
  const { version, now, startedAt, lanes } = status
  const summary = `${version} is up ${span(now - startedAt)} with ${count(lanes.length, "lane")}`
  const problems = health(status).problems.filter(({ state }) => !ofConfig.includes(state))
  const found = problems.map((problem) =>
    finder("relay", problem.name)(
      levelOf(problem) === "critical" ? "wrong" : "warning",
      sentences([...problem.lines, ...(problem.action === "" ? [] : [`What to do: ${problem.action}`])]),
    ),
  )
  return [finder("relay", "status")("ok", summary), ...found, ...untaken(status, config)]
}

/** Whether a relay answered that it wants a token, which this user can't read. */
const wasDenied = (error: { readonly message: string; readonly isDenied?: boolean | undefined }): boolean =>
  error.isDenied === true

/** The finding about a relay that did not give its status; a warning if this user may not ask. */
const unanswered = (error: Parameters<typeof wasDenied>[0]): Finding => {
  const at = finder("relay", "status")
  const why = sentences(error.message.split("\n"))
  return wasDenied(error) ? at("warning", `not checked: ${why}`) : at("wrong", why)
}

/** The findings, and whether a relay of this config, whose file is `file`, answers. */
export const ports = Effect.fnUntraced(function* (config: RelayConfig, file: string) {
  const { listen, admin } = config
  const adminTaken = yield* Effect.result(isTaken(admin.listen))
  const listenTaken = yield* Effect.result(isTaken(listen, config))
  const status = Result.isSuccess(adminTaken) && adminTaken.success ? yield* askStatus : undefined
  const runs = status !== undefined && Result.isSuccess(status)
  const known = { runs, file, seesAll: Holders.seesAll() }
  const isDenied = status !== undefined && Result.isFailure(status) && wasDenied(status.failure)
  const ofAdmin = isDenied
    ? finder("port", "admin.listen")("ok", `${Address.format(admin.listen)} is taken by a relay, which wants a token`)
    : port("admin.listen", admin.listen, adminTaken, known)
  const both = [port("listen", listen, listenTaken, known), ofAdmin]
  const at = finder("relay", "status")
  const ofRelay: Findings =
    status === undefined
      ? [at("ok", `not running: nothing listens at ${Address.format(admin.listen)}`)]
      : Result.isSuccess(status)
        ? relay(status.success, config)
        : [unanswered(status.failure)]
  return { findings: [...both, ...ofRelay], runs }
})
