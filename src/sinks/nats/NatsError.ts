/** Failures of a NATS server, whatever they mean for the lane (`NatsErrors.ts`). */
import { Schema } from "effect"

export const Kind = Schema.Literals([
  // No connection.
  "unreachable",
  "silent",
  "silentToTls",
  "closed",
  "turnedAway",
  "foreign",
  "refused",
  "expired",
  "untrusted",
  "tlsMissing",
  "tlsUnwanted",
  // No acknowledgement.
  "publishDenied",
  "inboxDenied",
  "noStream",
  /** A stream takes the subject, or no server knows which streams there are: a quorum is missing. */
  "noLeader",
  "unacknowledged",
  "foreignAck",
  "noAck",
  "tooLarge",
  /** The stream refused it: `code` says why. */
  "stream",
])
export type Kind = typeof Kind.Type

export class NatsError extends Schema.TaggedError<NatsError>()("NatsError", {
  kind: Kind,
  /** JetStream's `err_code`; 0 without one. */
  code: Schema.Number,
  /** The server's words, or which failure of TLS or the network; may be empty. Holds no payload. */
  detail: Schema.String,
}) {}
