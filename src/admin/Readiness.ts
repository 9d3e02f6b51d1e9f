/** Reports whether a delivery can be stored durably now, for `/readyz` and the status. */
import { Effect } from "effect"
import { Ingest } from "../ingest/Ingest.ts"
import { Archive } from "../journal/Archive.ts"
import { areExhausted } from "../runtime/PausableListener.ts"

/** Returns the reason why no delivery can be accepted, or an empty string if it can. */
export const notReady = Effect.gen(function* () {
  const { health, message } = yield* (yield* Archive).status
  if (yield* (yield* Ingest).draining) return "draining"
  if (areExhausted()) return "file descriptors are used up, so no delivery is accepted"
  // Red means that events were lost, and `status` says which. New events are still stored.
  if (health === "ok" || health === "red") return ""
  return message === "" ? health : `${health}: ${message}`
})
