/**
 * Answers `/healthz` and `/readyz` for orchestrators and load balancers, which have
 * no token and may use any host name.
 *
 * `/healthz` shows that the process answers. `/readyz` reports only whether a
 * delivery can be stored now, because a sink that is down must not take ingest out
 * of rotation.
 */
import { Effect } from "effect"
import { probePaths } from "../config/Config.ts"
import { Ingest } from "../ingest/Ingest.ts"
import { Archive } from "../journal/Archive.ts"
import { areExhausted } from "../runtime/PausableListener.ts"
import type { Handler } from "../runtime/RequestGuard.ts"

/**
 * Reports whether a delivery can be stored durably now, for `/readyz` and the status. Returns the reason why no
 * delivery can be accepted, or an empty string if it can.
 */
export const notReady = Effect.gen(function* () {
  const { health, message } = yield* (yield* Archive).status
  if (yield* (yield* Ingest).draining) return "draining"
  if (areExhausted()) return "file descriptors are used up, so no delivery is accepted"
  // Red means that events were lost, and `status` says which. New events are still stored.
  if (health === "ok" || health === "red") return ""
  return message === "" ? health : `${health}: ${message}`
})

const reads: ReadonlySet<string> = new Set(["GET", "HEAD"])

/**
 * Makes a handler that answers probes and passes all other requests on. `toPublic`
 * omits the reason why the relay isn't ready.
 */
export const before = Effect.fnUntraced(function* (next: Handler, toPublic = false) {
  const run = Effect.runPromiseWith(yield* Effect.context<Ingest | Archive>())
  const ready = async (): Promise<Response> => {
    const why = await run(notReady)
    return why === "" ? plain(200, "ready") : plain(503, toPublic ? "not ready" : why)
  }
  const handle: Handler = (request) => {
    if (!reads.has(request.method)) return next(request)
    const { pathname } = new URL(request.url)
    if (pathname === probePaths.health) return plain(200, "ok")
    return pathname === probePaths.ready ? ready() : next(request)
  }
  return handle
})

/** Answers a probe while a restart holds all other requests. These will be answered, so the relay is ready. */
export const whileHeld = ({ method, url }: Request): Response | undefined => {
  if (!reads.has(method)) return undefined
  const { pathname } = new URL(url)
  if (pathname === probePaths.health) return plain(200, "ok")
  return pathname === probePaths.ready ? plain(200, "ready") : undefined
}

const plain = (status: number, text: string): Response =>
  new Response(`${text}\n`, { status, headers: { "content-type": "text/plain" } })
