/** The errors that the admin API answers with, and their HTTP statuses. */
import { Schema } from "effect"
import { Diagnostic } from "../config/diagnostics/Diagnostic.ts"

const message = { message: Schema.String }

/** The request does not match the schema. */
export class BadRequest extends Schema.TaggedError<BadRequest>()("BadRequest", message, { httpApiStatus: 400 }) {}

/** No lane, dead letter, sink or replay has this name. */
export class NotFound extends Schema.TaggedError<NotFound>()("NotFound", message, { httpApiStatus: 404 }) {}

/** Not possible in the current state; the message says what is. */
export class Refused extends Schema.TaggedError<Refused>()("Refused", message, { httpApiStatus: 409 }) {}

/** All streams that the relay serves at a time are open. */
export class TooMany extends Schema.TaggedError<TooMany>()("TooMany", message, { httpApiStatus: 429 }) {}

/** The new config is wrong; the one in force stays. */
export class Invalid extends Schema.TaggedError<Invalid>()(
  "Invalid",
  { ...message, diagnostics: Schema.Array(Diagnostic) },
  { httpApiStatus: 422 },
) {}

/** The journal can't do it now. */
export class Unavailable extends Schema.TaggedError<Unavailable>()("Unavailable", message, { httpApiStatus: 503 }) {}
