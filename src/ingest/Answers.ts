/** What ingest answers to a delivery that it does not keep. */
import * as Problem from "../runtime/Problem.ts"
import type { Unread } from "./Bodies.ts"

const retryAfter = (seconds: number) => ({ "retry-after": String(seconds) })

export const answers = {
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
  tooLarge: { status: 413, title: "The body is larger than this webhook takes", headers: Problem.closing },
  tooMany: {
    status: 503,
    title: "Too much at once",
    detail: "try again",
    headers: { ...retryAfter(1), ...Problem.closing },
  },
  tooSlow: { status: 408, title: "The body took too long", headers: Problem.closing },
  brokenOff: Problem.badRequest("the body broke off"),
  signature: { status: 401, title: "The signature is missing or does not match" },
  unknownType: { status: 422, title: "This webhook does not take this event type" },
  undecodable: { status: 422, title: "The body is no delivery envelope" },
  full: { status: 503, title: "The journal is full", detail: "try again", headers: retryAfter(30) },
  unavailable: { status: 503, title: "The journal is not available", detail: "try again", headers: retryAfter(5) },
} satisfies Record<string, Problem.Problem>

export const unreadAnswers: Readonly<Record<Unread, Problem.Problem>> = {
  "too large": answers.tooLarge,
  "too many": answers.tooMany,
  "too slow": answers.tooSlow,
  "broken off": answers.brokenOff,
}
