/** The errors of the admin API and their HTTP statuses. */
import { Schema } from "effect"
import { roles } from "../config/Config.ts"
import { Diagnostic } from "../config/diagnostics/Diagnostic.ts"

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
