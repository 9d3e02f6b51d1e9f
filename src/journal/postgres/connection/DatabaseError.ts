/**
 * Why PostgreSQL didn't execute a statement. The reason decides the caller's next step. The message is for
 * people, and holds no secret and no value.
 *
 * Codes are PostgreSQL's (SQLSTATE), from appendix A of its documentation.
 */
import { Effect, Schema } from "effect"
import { full, type JournalError, refusedData, unavailable } from "../../JournalError.ts"

const reasons = [
  /** Temporary: no server that takes writes can be reached, or it ended the connection. The caller should retry. */
  "unavailable",
  /** Another transaction came first: the row exists, a deadlock, or a failed serialization. */
  "conflict",
  /** An operator must act: a wrong password, a missing database or right, or a certificate that isn't trusted. */
  "misconfigured",
  /** Retrying won't help: a defect of the relay, or damage in the database. */
  "failed",
] as const

/** A failure of a statement or a connection. */
export class DatabaseError extends Schema.TaggedError<DatabaseError>()("DatabaseError", {
  reason: Schema.Literals(reasons),
  message: Schema.String,
  /** The server's SQLSTATE if it gave one, otherwise the system's code (`ECONNREFUSED`), or empty. */
  code: Schema.String,
  /** True if the statement may have been executed, because its connection ended before the answer arrived. */
  isLost: Schema.Boolean,
}) {}

/** An error that doesn't come from a server. */
export const databaseError = (
  reason: DatabaseError["reason"],
  message: string,
  { code = "", isLost = false }: { readonly code?: string; readonly isLost?: boolean } = {},
): DatabaseError => new DatabaseError({ reason, message, code, isLost })

/** An error of a server, whose name precedes the message. */
export const errorAt = (
  at: string,
  reason: DatabaseError["reason"],
  words: string,
  more?: { readonly code?: string; readonly isLost?: boolean },
): DatabaseError => databaseError(reason, `PostgreSQL at ${at}: ${words}`, more)

/** The properties that `pg` and the system may give an error. */
interface Raw {
  readonly code?: unknown
  readonly message?: unknown
  readonly severity?: unknown
}

const hints: Readonly<Record<string, string>> = {
  "28P01": 'the password is wrong: set "journal": { "password": … }, and reload the relay',
  "28000": "the server rejects this user: check its pg_hba.conf, and whether it requires TLS",
  "3D000": 'there is no such database: create it, or correct the "url" of "journal"',
  "3F000": "the schema is missing: the relay creates it if it has CREATE on the database",
  "42501": "the user lacks a right: docs/reference/journal.md lists the GRANTs",
  "55P03": "another transaction holds a lock",
  "53100": "the server's disk is full",
  "53300": 'the server has no connection left: raise its max_connections, or lower "journal": { "pool": … }',
  "53400": "the server has no connection left for this user or database",
  "57P01": "the server ended the connection: it shuts down, or an administrator ended it",
  "57P02": "the server crashed and restarts",
  "57P03": "the server is starting",
  "25006": "the server takes no writes: it is a standby, or read-only",
}

/** Temporary codes, by their first two characters: connections, resources, an operator's action, the system. */
const passing = new Set(["08", "53", "57", "58"])
const serialization = "40"
/** The row exists already, or a lock wasn't free in time. */
const conflicting = new Set(["23505", "55P03"])
const wrongConfig = new Set(["28", "3D", "3F"])
/** The user lacks a right. */
const lacksRight = "42501"
/** The server's disk is full. */
export const diskFull = "53100"
/** The server takes no writes: it is a standby, or is set to read-only. */
export const readOnly = "25006"

/** Reports whether the statement's values are at fault: the database refuses them, and will refuse them again. */
export const isOfData = ({ code }: Pick<DatabaseError, "code">): boolean =>
  /^2[23]/.test(code) && !conflicting.has(code)

const reasonOf = (code: string): DatabaseError["reason"] => {
  const kind = code.slice(0, 2)
  if (wrongConfig.has(kind) || code === lacksRight) return "misconfigured"
  if (passing.has(kind) || code === readOnly) return "unavailable"
  if (kind === serialization || conflicting.has(code)) return "conflict"
  return "failed"
}

const isState = (code: unknown): code is string => typeof code === "string" && /^[0-9A-Z]{5}$/.test(code)

/**
 * An error that the server reported. Its message names columns and tables. Its detail may hold values, so that
 * is left out.
 */
export const ofServer = (error: unknown, at: string): DatabaseError => {
  const { code, message } = error as Raw
  if (!isState(code)) return lost(error, at)
  // With these codes the server ended the connection itself, and it may have committed before.
  const isLost = code.startsWith("57P")
  return errorAt(at, reasonOf(code), `${hints[code] ?? String(message)} (${code})`, { code, isLost })
}

/** The connection ended while a statement was under way. */
export const lost = (error: unknown, at: string): DatabaseError => {
  const { code } = error as Raw
  const known = typeof code === "string" ? code : ""
  return errorAt(at, "unavailable", `the connection was lost${known && ` (${known})`}`, { code: known, isLost: true })
}

const untrusted = 'is not trusted: name its authority in "journal": { "tls": { "ca": … } }'
const certificates: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: untrusted,
  SELF_SIGNED_CERT_IN_CHAIN: untrusted,
  UNABLE_TO_GET_ISSUER_CERT: untrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: untrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: untrusted,
  CERT_SIGNATURE_FAILURE: untrusted,
  CERT_HAS_EXPIRED: "has expired",
  ERR_TLS_CERT_ALTNAME_INVALID: 'is for another name than the one in the "url"',
}

const speaks: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ENOTFOUND: "there is no such host",
  EAI_AGAIN: "the host's name can't be resolved now",
  ENOENT: "there is no such socket",
  ETIMEDOUT: "it did not answer in time",
  EHOSTUNREACH: "the network has no route to it",
  ENETUNREACH: "the network has no route to it",
  ECONNRESET: "it ended the connection",
  EPROTO: "its answer is not PostgreSQL's protocol",
}

/** An error from connecting: the server couldn't be reached or rejected the relay, so nothing was sent. */
export const ofConnecting = (error: unknown, at: string): DatabaseError => {
  if (error instanceof DatabaseError) return error
  const { code, message } = error as Raw
  if (isState(code) && (error as Raw).severity !== undefined) {
    const { reason, message } = ofServer(error, at)
    return databaseError(reason, message, { code })
  }
  const known = typeof code === "string" ? code : ""
  const say = (reason: DatabaseError["reason"], words: string) => errorAt(at, reason, words, { code: known })
  const text = String(message)
  if (text.includes("does not support SSL")) {
    return say(
      "misconfigured",
      'it speaks no TLS: give it a certificate, or, in a network that you trust, write ?sslmode=disable in the "url"',
    )
  }
  const distrust = certificates[known]
  if (distrust !== undefined) return say("misconfigured", `its certificate ${distrust}`)
  if (/SASL|SCRAM|channel binding/i.test(text)) return say("misconfigured", "it can't log in by password")
  return say("unavailable", speaks[known] ?? `it can't be reached${known && ` (${known})`}`)
}

/** Maps a full disk to `JournalFull`, and everything else to `JournalUnavailable`. */
export const refusalOf = (error: DatabaseError): JournalError => {
  const { code, message } = error
  if (code === diskFull) return full("disk", message)
  return isOfData(error) ? refusedData(message) : unavailable(message)
}

/** Translates the errors of an effect. */
export const refusing = <A, R>(
  effect: Effect.Effect<A, DatabaseError | JournalError, R>,
): Effect.Effect<A, JournalError, R> =>
  Effect.mapError(effect, (error) => (error._tag === "DatabaseError" ? refusalOf(error) : error))

/**
 * Reports whether the same statement may be sent again: as far as this relay knows nothing was stored, or another
 * transaction came first.
 */
export const mayRepeat = ({ reason, code }: DatabaseError): boolean =>
  (reason === "unavailable" || reason === "conflict") && code !== diskFull
