/** The admin API of lanes: their last hour, and pausing, resuming, moving and dropping them. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { EpochMillis } from "../../event/Quantities.ts"
import { endings } from "../../journal/LaneInfo.ts"
import { LaneHistory } from "../status/Status.ts"
import { Count, NotFound, Refused, Unavailable } from "./ApiParts.ts"

const optional = Schema.optionalKey
const name = { name: Schema.String }

/** A year in milliseconds. */
const longestPause = 365 * 86_400_000

const Ending = Schema.Literals(endings).annotate({ message: `ending is one of ${endings.join(", ")}` })

/** Changes of lanes. `move` and `drop` are for lanes without a sink in the config; others get a 409. */
export class LaneGroup extends HttpApiGroup.make("lanes").add(
  HttpApiEndpoint.get("history", "/lanes/:name/history", {
    params: name,
    success: LaneHistory,
    error: [NotFound, Unavailable],
  }),
  /** With `for`, in milliseconds, the pause ends by itself: at `until`. `ending` needs such an end. */
  HttpApiEndpoint.post("pause", "/lanes/:name/pause", {
    params: name,
    query: {
      for: optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1_000, maximum: longestPause }))),
      ending: optional(Ending),
    },
    success: Schema.Struct({ until: optional(EpochMillis), ending: optional(Ending) }),
    error: [NotFound, Refused, Unavailable],
  }),
  HttpApiEndpoint.post("resume", "/lanes/:name/resume", {
    params: name,
    error: [NotFound, Unavailable],
  }),
  HttpApiEndpoint.post("move", "/lanes/:name/move", {
    params: name,
    payload: Schema.Struct({ to: Schema.String }),
    success: Count,
    error: [NotFound, Refused, Unavailable],
  }),
  HttpApiEndpoint.post("drop", "/lanes/:name/drop", {
    params: name,
    success: Count,
    error: [NotFound, Refused, Unavailable],
  }),
) {}
