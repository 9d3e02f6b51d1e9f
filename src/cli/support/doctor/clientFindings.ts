/** Checks the sender's API for client details by asking it for a client that there is not. */
import { Effect } from "effect"
import type { ClientsConfig } from "../../../config/Config.ts"
import { lazily } from "../Program.ts"
import { type Findings, finder } from "./Finding.ts"

export const clients = Effect.fnUntraced(function* (config: ClientsConfig | undefined): Effect.fn.Return<Findings> {
  if (config === undefined) return []
  const { make } = yield* lazily(() => import("../../../enrichment/Clients.ts"))
  const at = finder("clients", config.baseUrl)
  return yield* Effect.scoped(Effect.flatMap(make(config), ({ get }) => get(nobody))).pipe(
    Effect.match({
      // One that was made up is known: then the answer says nothing of real ones.
      onSuccess: () => [
        at("warning", `it answers with details of a client that does not exist, ${nobody}: check "clients.baseUrl"`),
      ],
      onFailure: ({ reason, message }) =>
        reason === "unknown"
          ? [at("ok", "reached: it knows no client of a made-up id")]
          : [at("wrong", message.replace(/^client details: /, ""))],
    }),
  )
})

/** An id that no client has. */
const nobody = "cli_relay_doctor"
