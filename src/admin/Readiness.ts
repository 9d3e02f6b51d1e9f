/** Whether a delivery can be accepted durably now: `/readyz`, and a part of the status. */
import { Effect } from "effect"
import { Ingest } from "../ingest/Ingest.ts"
import { Archive } from "../journal/Archive.ts"
import * as Descriptors from "../runtime/Descriptors.ts"

/** Why not; empty when it can. */
export const notReady = Effect.gen(function* () {
  const { health, message } = yield* (yield* Archive).status
  if (yield* (yield* Ingest).draining) return "draining"
  if (Descriptors.areExhausted()) return "file descriptors are used up, so no delivery is accepted"
  // Red: events were lost before, and `status` says which. New ones are kept.
  if (health === "ok" || health === "red") return ""
  return message === "" ? health : `${health}: ${message}`
})
