/** Handlers that start, follow and cancel replays. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import * as Api from "./Api.ts"
import { Replays } from "./Replays.ts"

export const layer = HttpApiBuilder.group(
  Api.Api,
  "replays",
  Effect.fn(function* (handlers) {
    const { start, list, show, cancel } = yield* Replays
    return handlers.handleAll({
      start: ({ payload }) => start(payload),
      list: () => list,
      show: ({ params: { id } }) => show(id),
      cancel: ({ params: { id } }) => cancel(id),
    })
  }),
)
