/**
 * Checks that a token's role allows a request, and records changes in the audit log.
 *
 * A request other than GET requires the role `operate`. `AuditedOperations.ts`
 * defines the record of each change, which is written however the change ends. A
 * request that does not match the schema is not recorded.
 */
import { Cause, Clock, Effect, type Exit, Layer, Option } from "effect"
import { HttpRouter, HttpServerRequest, type HttpServerResponse } from "effect/http"
import { HttpApiError } from "effect/http-api"
import * as Monotonic from "../event/Monotonic.ts"
import { Archive } from "../journal/Archive.ts"
import * as AuditLog from "../journal/AuditLog.ts"
import { operations } from "./AuditedOperations.ts"
import { Authorization, Forbidden } from "./api/ApiParts.ts"
import { Caller, type CallerFacts } from "./RelayInfo.ts"

/** Milliseconds within which another part belongs to the same operation. */
const pause = 60_000

const forbidden = ({ name }: CallerFacts) =>
  new Forbidden({
    message: `the token ${name} has the role read and can't change anything: use one with the role operate`,
    token: name,
    needs: "operate",
  })

/** The request in the form that its endpoint declares, because it was already decoded. */
const askedOf = Effect.gen(function* () {
  const { params } = yield* HttpRouter.RouteContext
  const request = yield* HttpServerRequest.HttpServerRequest
  const payload = yield* Effect.orElseSucceed(request.json, () => ({}))
  return { params, payload }
})

const answerOf = ({ body }: HttpServerResponse.HttpServerResponse): unknown =>
  body._tag === "Uint8Array" ? JSON.parse(new TextDecoder().decode(body.body)) : {}

const isUndecoded = <E>(exit: Exit.Exit<unknown, E>): boolean =>
  exit._tag === "Failure" && Option.exists(Cause.findErrorOption(exit.cause), HttpApiError.HttpApiSchemaError.is)

export const layer: Layer.Layer<Authorization, never, Archive> = Layer.effect(
  Authorization,
  Effect.gen(function* () {
    const { audit } = yield* Archive
    let last = { part: "", at: Number.NEGATIVE_INFINITY }

    /** Reports whether this request continues the last recorded operation. */
    const isContinued = Effect.fnUntraced(function* (part: string) {
      const at = yield* Monotonic.now
      const continues = last.part === part && at - last.at < pause
      last = { part, at }
      return continues
    })

    return (handled, { group, endpoint }) =>
      Effect.gen(function* () {
        if (endpoint.method === "GET") return yield* handled
        const caller = yield* Caller
        const audited = operations[`${group.identifier}.${endpoint.identifier}`]
        const { params } = yield* HttpRouter.RouteContext
        const operation = { who: caller.name, by: caller.by, what: audited?.what ?? "" }
        if (caller.role === "read") {
          const error = forbidden(caller)
          const refused = {
            ...operation,
            on: Object.values(params).join(" "),
            result: "refused",
            note: error.message,
          } as const
          if (audited !== undefined) yield* AuditLog.store(audit, { at: yield* Clock.currentTimeMillis, ...refused })
          return yield* error
        }
        if (audited === undefined) return yield* handled
        const { on = () => "", note = () => "", isLeftOut = () => false, inParts = false } = audited
        return yield* Effect.onExit(
          handled,
          Effect.fnUntraced(function* (exit) {
            if (isUndecoded(exit)) return
            const asked = yield* askedOf
            const done = { ...operation, on: on(asked) }
            if (isLeftOut(asked)) return
            if (inParts && (yield* isContinued(JSON.stringify([done, exit._tag])))) return
            yield* AuditLog.storeEnd(audit, done, (answer: HttpServerResponse.HttpServerResponse) =>
              note(answerOf(answer)),
            )(exit)
          }),
        )
      })
  }),
)
