/**
 * The reasons to refuse a request, with the answer to the sender and the text and
 * advice for operators. An answer doesn't reveal to strangers how far the request
 * got.
 */
import type { SignatureRefusal } from "../event/Signature.ts"
import * as Problem from "../runtime/Problem.ts"
import * as RequestGuard from "../runtime/RequestGuard.ts"

/** A reason to refuse a request: the answer to the sender, and the text for operators. */
export interface Refusal {
  readonly answer: Problem.Problem
  /** The problem, for the log and `relay status`. It contains nothing from the request. */
  readonly what: string
  /** The action to take. */
  readonly advice: string
}

/** Details that add to the reason. */
export interface More {
  /** An explanation in the relay's own words. */
  readonly why?: string
  /** A detail of the request, such as its path. `relay status` and `relay tap` show it, but it is not logged. */
  readonly sent?: string
  /** Seconds until the sender may try again, instead of the answer's own. */
  readonly retryAfter?: number
}

const retryAfter = (seconds: number) => ({ "retry-after": String(seconds) })

const answers = {
  draining: {
    status: 503,
    title: "Shutting down",
    detail: "try again",
    headers: { ...retryAfter(5), ...Problem.closing },
  },
  unknown: { status: 404, title: "No such webhook" },
  method: { status: 405, title: "Deliveries must use POST", headers: { allow: "POST" } },
  verifyToken: { status: 403, title: "The verify token does not match" },
  contentType: { status: 415, title: "Content-Type must be application/json" },
  encoding: { status: 415, title: "A content encoding is not supported" },
  tooLarge: { status: 413, title: "The body is larger than this webhook takes" },
  tooMany: {
    status: 503,
    title: "Too much at once",
    detail: "try again",
    headers: { ...retryAfter(1), ...Problem.closing },
  },
  tooSlow: { status: 408, title: "The body took too long", headers: Problem.closing },
  brokenOff: Problem.badRequest("the body ended early"),
  unreadable: Problem.badRequest("this is not HTTP/1"),
  notGzip: Problem.badRequest("the body is not gzip"),
  signature: { status: 401, title: "The signature is missing or does not match" },
  unknownType: { status: 422, title: "This webhook does not take this event type" },
  undecodable: { status: 422, title: "The body is not a delivery envelope" },
  rateLimited: {
    status: 429,
    title: "More deliveries than this webhook takes",
    detail: "try again",
    headers: retryAfter(1),
  },
  full: { status: 503, title: "The journal is full", detail: "try again", headers: retryAfter(30) },
  quarantineFull: { status: 503, title: "The quarantine is full", detail: "try again", headers: retryAfter(30) },
  unavailable: { status: 503, title: "The journal is not available", detail: "try again", headers: retryAfter(5) },
} satisfies Record<string, Problem.Problem>

const later = "none needed if it passes: a sender that repeats its deliveries brings them later"

/** The refusals by reason, in the order in which a request is checked. */
export const refusals = {
  badHost: {
    answer: RequestGuard.problems.badHost,
    what: "the Host header is missing, doubled or malformed",
    advice: "make the proxy in front send one well-formed Host header",
  },
  badLength: {
    answer: RequestGuard.problems.badLength,
    what: "the Content-Length header is doubled or malformed",
    advice: "make the proxy in front send one well-formed Content-Length header",
  },
  unreadable: {
    answer: answers.unreadable,
    what: "the connection ended without a request that is HTTP/1",
    advice:
      "compare the proxy in front with the listener: it must not send the PROXY protocol or HTTP/2, has TLS only if the config has `tls`, and keeps headers within `maxHeaders`",
  },
  trailer: {
    answer: RequestGuard.problems.trailer,
    what: "a body in chunks announces a trailer, which Bun can't read",
    advice: "make the client or the proxy in front send no trailers, or a Content-Length",
  },
  draining: { answer: answers.draining, what: "the relay is stopping", advice: later },
  unknownPath: {
    answer: answers.unknown,
    what: "no webhook has this path",
    advice: "compare it with the receiver URL in the webhook's edit panel, and with `path` in the config",
  },
  unknownWebhookId: {
    answer: answers.unknown,
    what: "the webhook id is not in `id`, and `strictId` asks for that",
    advice: "add it to the webhook's `id`, or set `strictId` to false",
  },
  method: {
    answer: answers.method,
    what: "it is not a POST",
    advice: "none needed for a browser or a scanner; a health check belongs to the admin API's /readyz",
  },
  verifyToken: {
    answer: answers.verifyToken,
    what: "the verify token of a challenge does not match",
    advice: "compare the token in the sender's settings with `verifyToken` of the webhook",
  },
  contentType: {
    answer: answers.contentType,
    what: "the content type is not JSON",
    advice: "make the client send application/json, as the sender does",
  },
  contentEncoding: {
    answer: answers.encoding,
    what: "the body has a content encoding",
    advice: "make the proxy in front pass bodies on as they are",
  },
  tooLarge: {
    answer: answers.tooLarge,
    what: "the body is larger than `maxBody`",
    advice: "raise the webhook's `maxBody`",
  },
  tooMany: {
    answer: answers.tooMany,
    what: "more than 32 MiB of bodies arrive at once, or 64 MiB with those that wait for the journal",
    advice: "limit connections at a proxy in front if it lasts",
  },
  tooSlow: {
    answer: answers.tooSlow,
    what: "the body took too long",
    advice: "look at the network and the proxy in front: a body has 30 seconds, 10 of them for its first byte",
  },
  brokenOff: {
    answer: answers.brokenOff,
    what: "the body ended early",
    advice: "look at the network and at the time-outs of the proxy in front",
  },
  notGzip: {
    answer: answers.notGzip,
    what: "the body is not gzip, although its content encoding says so",
    advice: "make the client or the proxy in front send what `Content-Encoding` says",
  },
  signatureMissing: {
    answer: answers.signature,
    what: "the signature is missing",
    advice:
      "none needed for a scanner; if the sender sent it, compare `headers.signature` with the name of its header, and make the proxy in front pass that on",
  },
  signatureDoubled: {
    answer: answers.signature,
    what: "the same signature arrived twice",
    advice: "make the proxy in front pass the header on once",
  },
  signatureSeveral: {
    answer: answers.signature,
    what: "there are several signatures, and they differ",
    advice:
      "a delivery has one signature, by one secret: make the client put one in the header, and let no proxy in front add its own; to change secrets, give the webhook both in `secrets`",
  },
  signatureMalformed: {
    answer: answers.signature,
    what: "the signature is malformed",
    advice:
      "compare `headers.signature` with the name of the sender's header: its value is not sha256= and 64 uppercase hexadecimal digits; with `verify`, compare that with the sender",
  },
  signatureLowercase: {
    answer: answers.signature,
    what: "the signature is in lowercase hexadecimal digits",
    advice: "use uppercase digits, as the sender does: the client, or a proxy in front, sends lowercase ones",
  },
  signatureMismatch: {
    answer: answers.signature,
    what: "the signature does not match",
    advice:
      "compare the secret with the one in the webhook's edit panel; if they are the same, a proxy in front changes the body",
  },
  signatureExpired: {
    answer: answers.signature,
    what: "the signature uses a secret that has expired",
    advice: "make the sender sign with the newer secret, or give the old one a later `expires`",
  },
  signatureUntimely: {
    answer: answers.signature,
    what: "the signed time is further from now than the tolerance",
    advice: "compare the clocks of this machine and of the sender; for an old delivery, have the sender send it again",
  },
  rateLimited: {
    answer: answers.rateLimited,
    what: "there are more deliveries than `rateLimit` allows",
    advice:
      "none needed after a short burst if the sender repeats its deliveries; otherwise raise the webhook's `rateLimit`",
  },
  webhookFull: {
    answer: answers.full,
    what: "the journal is fuller than `journalShare` allows",
    advice: "look at what fills the journal in `relay status`; the rest of it is for other webhooks",
  },
  unknownType: {
    answer: answers.unknownType,
    what: "the event type is not in the catalogue, and `unknownTypes` is reject",
    advice: "set the webhook's `unknownTypes` to route or quarantine to keep such events",
  },
  undecodable: {
    answer: answers.undecodable,
    what: "the body is not a delivery envelope, and `undecodable` is reject",
    advice: "set the webhook's `undecodable` to quarantine to keep such bodies and check them",
  },
  journalFull: {
    answer: answers.full,
    what: "the journal is full",
    advice: "free disk space, raise journal.maxSize, or make the sinks accept their backlog",
  },
  quarantineFull: {
    answer: answers.quarantineFull,
    what: "it can't be routed, and the quarantine has no space for more of this webhook",
    advice:
      "relay dlq list --sink _quarantine shows what fills it: replay or drop that, raise `quarantine.maxSize` and `maxShare`, or stop the client that sends these",
  },
  journalUnavailable: {
    answer: answers.unavailable,
    what: "the journal is not available",
    advice: "look at the journal in `relay status` and in the log",
  },
  bug: {
    answer: RequestGuard.problems.bug,
    what: "internal error",
    advice: "find the cause in the log by the request id, and report it",
  },
} satisfies Record<string, Refusal>

/** A reason's name in `relay status`, the metrics and the log. */
export type RefusalReason = keyof typeof refusals

/** All reasons, in the order in which a request is checked. */
export const reasons = Object.keys(refusals) as ReadonlyArray<RefusalReason>

/** The reason for each problem with a signature (interface, section 3). */
export const signatureRefusals: Readonly<Record<SignatureRefusal, RefusalReason>> = {
  missing: "signatureMissing",
  doubled: "signatureDoubled",
  several: "signatureSeveral",
  malformed: "signatureMalformed",
  lowercase: "signatureLowercase",
  mismatch: "signatureMismatch",
  expired: "signatureExpired",
  untimely: "signatureUntimely",
}
