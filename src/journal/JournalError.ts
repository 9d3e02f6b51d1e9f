/** Why a journal refuses a request. The reason decides the caller's next step. */
import { Schema } from "effect"
import { relayVersion } from "../runtime/Version.ts"

const withMessage = { message: Schema.String }

/** Full: `maxSize`, the free-space watermark, or a lane's backlog. The caller should retry. */
export class JournalFull extends Schema.TaggedError<JournalFull>()("JournalFull", {
  cause: Schema.Literals(["maxSize", "disk", "backlog"]),
  ...withMessage,
}) {}

/** Temporary: the journal is starting, or this commit failed and was rolled back. The caller should retry. */
export class JournalUnavailable extends Schema.TaggedError<JournalUnavailable>()("JournalUnavailable", {
  ...withMessage,
  /** Another process holds a lock on the file, for a limited time. */
  isLocked: Schema.optionalKey(Schema.Boolean),
  /** The journal refuses this request's data, and will refuse it again. It stores other requests. */
  isOfData: Schema.optionalKey(Schema.Boolean),
}) {}

/** Final in this process: an fsync failed, or the file isn't the opened one any more. */
export class JournalBroken extends Schema.TaggedError<JournalBroken>()("JournalBroken", withMessage) {}

/** Another relay has taken over the stream. Nothing more that this relay writes to it is stored. */
export class JournalFenced extends Schema.TaggedError<JournalFenced>()("JournalFenced", withMessage) {}

/** The request is wrong: it can't be met, now or later. */
export class JournalRefused extends Schema.TaggedError<JournalRefused>()("JournalRefused", withMessage) {}

export class JournalError extends Schema.TaggedError<JournalError>()("JournalError", {
  reason: Schema.Union([JournalFull, JournalUnavailable, JournalBroken, JournalFenced, JournalRefused]),
}) {
  override get message(): string {
    return this.reason.message
  }
}

/** Reports whether the caller may retry, because no other relay owns the stream. */
export const isNotFenced = ({ reason }: JournalError): boolean => reason._tag !== "JournalFenced"

/** Reports whether the journal may accept the request later. */
export const isUnavailable = ({ reason }: JournalError): boolean => reason._tag === "JournalUnavailable"

/** Reports whether the journal refuses this request's data, but accepts other requests. */
export const isRefusedData = ({ reason }: JournalError): boolean =>
  reason._tag === "JournalUnavailable" && reason.isOfData === true

export const full = (cause: JournalFull["cause"], message: string): JournalError =>
  new JournalError({ reason: new JournalFull({ cause, message }) })

export const unavailable = (message: string): JournalError =>
  new JournalError({ reason: new JournalUnavailable({ message }) })

export const locked = (message: string): JournalError =>
  new JournalError({ reason: new JournalUnavailable({ message, isLocked: true }) })

export const refusedData = (message: string): JournalError =>
  new JournalError({ reason: new JournalUnavailable({ message, isOfData: true }) })

export const broken = (message: string): JournalError => new JournalError({ reason: new JournalBroken({ message }) })

export const fenced = (message: string): JournalError => new JournalError({ reason: new JournalFenced({ message }) })

export const refused = (message: string): JournalError => new JournalError({ reason: new JournalRefused({ message }) })

/** An error of `relay journal …` on a journal's file. */
export class MaintenanceError extends Schema.TaggedError<MaintenanceError>()("MaintenanceError", withMessage) {}

// The refusal of a journal whose schema a newer relay has changed. Both journals record that relay's version as `writer`,
// with the version of the schema.

/** Only a string that looks like a version is shown, because anything may be stored there. */
const versionLike = /^\d[\w.+-]{0,39}$/

/** Names a relay that can use the journal, and the alternative to running it. */
export const newerJournal = (journal: string, writer: unknown): string => {
  const isKnown = typeof writer === "string" && versionLike.test(writer) && writer !== relayVersion
  const [who, wanted] = isKnown ? [`relay ${writer}`, `relay ${writer} or later`] : ["a newer relay", "that version"]
  return `${who} wrote ${journal}, which is too new for this relay (${relayVersion}): run ${wanted}, or restore a backup from before the upgrade`
}
