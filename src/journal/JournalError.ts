/** Why a journal refuses: the reason decides what the caller does next. */
import { Schema } from "effect"

const said = { message: Schema.String }

/** Full: `maxSize`, the free-space watermark, or a lane's backlog. A retry is wanted. */
export class JournalFull extends Schema.TaggedError<JournalFull>()("JournalFull", {
  cause: Schema.Literals(["maxSize", "disk", "backlog"]),
  ...said,
}) {}

/** Not now: it is starting, or this commit failed and was rolled back. A retry is wanted. */
export class JournalUnavailable extends Schema.TaggedError<JournalUnavailable>()("JournalUnavailable", {
  ...said,
  /** Another process holds a lock on the file: it passes. */
  isLocked: Schema.optionalKey(Schema.Boolean),
  /** The journal refuses the data of the request, and will do so again; other requests are stored. */
  isOfData: Schema.optionalKey(Schema.Boolean),
}) {}

/** Never again in this process: an fsync failed, or the file is not the one that was opened. */
export class JournalBroken extends Schema.TaggedError<JournalBroken>()("JournalBroken", said) {}

/** Another relay has taken over the stream: what this one has to say of it is not stored any more. */
export class JournalFenced extends Schema.TaggedError<JournalFenced>()("JournalFenced", said) {}

/** The request can't be met, now or later: a mistake of whoever asks. */
export class JournalRefused extends Schema.TaggedError<JournalRefused>()("JournalRefused", said) {}

export class JournalError extends Schema.TaggedError<JournalError>()("JournalError", {
  reason: Schema.Union([JournalFull, JournalUnavailable, JournalBroken, JournalFenced, JournalRefused]),
}) {
  override get message(): string {
    return this.reason.message
  }
}

/** Whether the same may be tried again: no other relay has the stream. */
export const isNotFenced = ({ reason }: JournalError): boolean => reason._tag !== "JournalFenced"

/** Reports whether the journal refuses the data of the request, and takes others. */
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

/** Work on a journal's file that failed: `relay journal …`. */
export class MaintenanceError extends Schema.TaggedError<MaintenanceError>()("MaintenanceError", said) {}
