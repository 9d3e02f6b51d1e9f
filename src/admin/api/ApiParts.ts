/** What all groups of the admin API share: errors with their HTTP statuses, middleware and options. */
import { Effect, Schema } from "effect"
import { HttpApiMiddleware } from "effect/http-api"
import { Diagnostic } from "../../config/diagnostics/Diagnostic.ts"
import { roles } from "../../config/schema/ConfigFile.ts"
import type { JournalError } from "../../journal/Journal.ts"
import * as Pattern from "../../routing/Pattern.ts"
import type { EventSelection } from "./EventSelection.ts"

const message = { message: Schema.String }

/** 400: the request does not match the schema. */
export class BadRequest extends Schema.TaggedError<BadRequest>()("BadRequest", message, { httpApiStatus: 400 }) {}

/** 403: the token's role does not allow it. */
export class Forbidden extends Schema.TaggedError<Forbidden>()(
  "Forbidden",
  {
    ...message,
    /** The name of the token that was sent. */
    token: Schema.String,
    /** The required role. */
    needs: Schema.Literals(roles),
  },
  { httpApiStatus: 403 },
) {}

/** 404: no lane, dead letter, sink, webhook or replay has this name. */
export class NotFound extends Schema.TaggedError<NotFound>()("NotFound", message, { httpApiStatus: 404 }) {}

/** 409: not possible in the current state. The message says what is possible. */
export class Refused extends Schema.TaggedError<Refused>()("Refused", message, { httpApiStatus: 409 }) {}

/** 429: the maximum number of live streams is open. */
export class TooMany extends Schema.TaggedError<TooMany>()("TooMany", message, { httpApiStatus: 429 }) {}

/** 422: the new config is wrong; the active one stays. */
export class Invalid extends Schema.TaggedError<Invalid>()(
  "Invalid",
  { ...message, diagnostics: Schema.Array(Diagnostic) },
  { httpApiStatus: 422 },
) {}

/** 503: the journal can't do it now. */
export class Unavailable extends Schema.TaggedError<Unavailable>()("Unavailable", message, { httpApiStatus: 503 }) {}

export const Count = Schema.Struct({ count: Schema.Int })

/** Answers requests that don't match the schema. */
export class SchemaErrors extends HttpApiMiddleware.Service<SchemaErrors>()("relay/admin/SchemaErrors", {
  error: BadRequest,
}) {}

/** Allows changes only if the caller's role permits them, and records them. */
export class Authorization extends HttpApiMiddleware.Service<Authorization>()("relay/admin/Authorization", {
  error: Forbidden,
}) {}

export const unavailable = ({ message }: JournalError) => new Unavailable({ message })

/** Maps a caller's mistake to a refusal, and any other error to {@link unavailable}. */
export const refusedOr = (error: JournalError) =>
  error.reason._tag === "JournalRefused" ? new Refused({ message: error.message }) : unavailable(error)

export const noLane = (name: string) =>
  new NotFound({ message: `there is no lane ${name}; \`relay lanes list\` shows them` })

export const noAlert = (sink: string, id: number) =>
  new NotFound({
    message: `this relay has no alert ${id} of a sink ${sink}; \`relay alerts list\` shows the alerts. With several relays, ask the relay that delivers the sink`,
  })

/** A lane without a sink sends nothing, so it can't be paused. */
export const sinkRemoved = (name: string) =>
  new NotFound({
    message: `${name} has no sink in the config: move its events with \`relay lanes move ${name} TO\`, or drop them with \`relay lanes drop ${name}\``,
  })

export const noWebhook = (name: string | undefined) =>
  new NotFound({ message: `there is no webhook ${name} in the config` })

export const noSink = (name: string | undefined) =>
  new NotFound({ message: `there is no sink ${name} in the config; \`relay status\` shows them` })

/** Fails unless each given type is a valid pattern. */
export const requirePatterns = (...types: ReadonlyArray<string | undefined>): Effect.Effect<void, Refused> => {
  for (const type of types) {
    const problem = type === undefined ? undefined : Pattern.problem(type)
    if (problem !== undefined) return Effect.fail(new Refused({ message: `the type ${type}: ${problem}` }))
  }
  return Effect.void
}

/** Fails unless each type is a valid pattern and the selected fields can occur together. */
export const requireSelectable = (selection: EventSelection): Effect.Effect<void, Refused> => {
  const { types, outcome, sink, endedSince, endedUntil } = selection
  const isOfSink = sink !== undefined || endedSince !== undefined || endedUntil !== undefined
  return outcome === "unrouted" && isOfSink
    ? Effect.fail(new Refused({ message: "unrouted events went to no sink: ask for them without a sink or an end" }))
    : requirePatterns(...(types ?? []))
}
