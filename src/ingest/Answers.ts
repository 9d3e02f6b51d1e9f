/**
 * Why a request is refused: what it is answered, and what an operator reads and
 * does about it. An answer tells a stranger nothing of how far it came.
 */
import type { SignatureRefusal } from "../event/Signature.ts"
import * as Problem from "../runtime/Problem.ts"
import * as RequestGuard from "../runtime/RequestGuard.ts"

/** A reason to refuse a request: what the sender is answered, and what an operator is told. */
export interface Refusal {
  readonly answer: Problem.Problem
  /** It says what is wrong, for the log and `relay status`. Holds nothing of the request. */
  readonly what: string
  /** It says what to do. */
  readonly advice: string
}

/** It tells more than the reason. */
export interface More {
  /** In words of ours. */
  readonly why?: string
  /** A detail of the request, such as its path: shown where the relay is looked at, and not in the log. */
  readonly sent?: string
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
  method: { status: 405, title: "Deliveries are sent by POST", headers: { allow: "POST" } },
  contentType: { status: 415, title: "Deliveries are application/json" },
  encoding: { status: 415, title: "Deliveries are sent without a content encoding" },
  tooLarge: { status: 413, title: "The body is larger than this webhook takes" },
  tooMany: {
    status: 503,
    title: "Too much at once",
    detail: "try again",
    headers: { ...retryAfter(1), ...Problem.closing },
  },
  tooSlow: { status: 408, title: "The body took too long", headers: Problem.closing },
  brokenOff: Problem.badRequest("the body broke off"),
  unreadable: Problem.badRequest("this is not HTTP/1"),
  signature: { status: 401, title: "The signature is missing or does not match" },
  unknownType: { status: 422, title: "This webhook does not take this event type" },
  undecodable: { status: 422, title: "The body is no delivery envelope" },
  full: { status: 503, title: "The journal is full", detail: "try again", headers: retryAfter(30) },
  quarantineFull: { status: 503, title: "The quarantine is full", detail: "try again", headers: retryAfter(30) },
  unavailable: { status: 503, title: "The journal is not available", detail: "try again", headers: retryAfter(5) },
} satisfies Record<string, Problem.Problem>

const later = "none needed if it passes: a sender that repeats its deliveries brings them later"

/** By reason, in the order in which a request is checked. */
export const refusals = {
  badHost: {
    answer: RequestGuard.problems.badHost,
    what: "the Host header is missing, doubled or malformed",
    advice: "have the proxy in front send one well-formed Host header",
  },
  badLength: {
    answer: RequestGuard.problems.badLength,
    what: "the Content-Length header is doubled or malformed",
    advice: "have the proxy in front send one well-formed Content-Length header",
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
    advice: "have the client or the proxy in front send no trailers, or a Content-Length",
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
  contentType: {
    answer: answers.contentType,
    what: "the content type is not JSON",
    advice: "have what sends it say application/json; the sender does",
  },
  contentEncoding: {
    answer: answers.encoding,
    what: "the body has a content encoding",
    advice: "have the proxy in front pass bodies on as they are",
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
    what: "the body broke off",
    advice: "look at the network and at the time-outs of the proxy in front",
  },
  signatureMissing: {
    answer: answers.signature,
    what: "the signature is missing",
    advice:
      "none needed for a scanner; if the sender sent it, compare `headers.signature` with the name of its header, and have the proxy in front pass that on",
  },
  signatureDoubled: {
    answer: answers.signature,
    what: "the same signature came twice",
    advice: "have the proxy in front pass the header on once",
  },
  signatureSeveral: {
    answer: answers.signature,
    what: "there are several signatures, and they differ",
    advice:
      "a delivery has one signature, by one secret: have what sends it put one in the header, and no proxy in front add its own; to change secrets, give the webhook both in `secrets`",
  },
  signatureMalformed: {
    answer: answers.signature,
    what: "the signature is malformed",
    advice:
      "compare `headers.signature` with the name of the sender's header: what it holds is not sha256= and 64 uppercase hexadecimal digits",
  },
  signatureLowercase: {
    answer: answers.signature,
    what: "the signature is in lowercase hexadecimal digits",
    advice: "write them in uppercase, as the sender does: what sends this, or a proxy in front, does not",
  },
  signatureMismatch: {
    answer: answers.signature,
    what: "the signature does not match",
    advice:
      "compare the secret with the one in the webhook's edit panel; if they are the same, a proxy in front changes the body",
  },
  signatureExpired: {
    answer: answers.signature,
    what: "the signature is of a secret that has expired",
    advice: "have the sender sign with the newer secret, or give the old one a later `expires`",
  },
  unknownType: {
    answer: answers.unknownType,
    what: "the event type is not in the catalogue, and `unknownTypes` is reject",
    advice: "set the webhook's `unknownTypes` to route or quarantine to keep such events",
  },
  undecodable: {
    answer: answers.undecodable,
    what: "the body is no delivery envelope, and `undecodable` is reject",
    advice: "set the webhook's `undecodable` to quarantine to keep such bodies and look at them",
  },
  journalFull: {
    answer: answers.full,
    what: "the journal is full",
    advice: "free disk space, raise journal.maxSize, or have the sinks take their backlog",
  },
  quarantineFull: {
    answer: answers.quarantineFull,
    what: "it can't be routed, and the quarantine has no room for more of this webhook",
    advice:
      "relay dlq list --sink _quarantine shows what fills it: replay or drop that, raise `quarantine.maxSize` and `maxShare`, or have what sends these stop",
  },
  journalUnavailable: {
    answer: answers.unavailable,
    what: "the journal is not available",
    advice: "look at the journal in `relay status` and in the log",
  },
  bug: {
    answer: RequestGuard.problems.bug,
    what: "a bug in relay",
    advice: "the log has its cause by the request id; please report it",
  },
} satisfies Record<string, Refusal>

/** The reasons, as `relay status`, the metrics and the log name them. */
export type RefusalReason = keyof typeof refusals

/** All reasons, in the order in which a request is checked. */
export const reasons = Object.keys(refusals) as ReadonlyArray<RefusalReason>

/** The reason by what is wrong with the signature (interface, section 3). */
export const signatureRefusals: Readonly<Record<SignatureRefusal, RefusalReason>> = {
  missing: "signatureMissing",
  doubled: "signatureDoubled",
  several: "signatureSeveral",
  malformed: "signatureMalformed",
  lowercase: "signatureLowercase",
  mismatch: "signatureMismatch",
  expired: "signatureExpired",
}
