/**
 * Log lines that strangers can cause, at most one in ten seconds of a kind: the
 * first at once, the next with the number of those left out in between.
 */
import { Clock, Effect } from "effect"

/** Says `message` of a kind: one of a webhook and a reason, never anything of the request. */
export type Notice = (kind: string, message: string) => void

const every = 10_000

export const make = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const said = new Map<string, { at: number; leftOut: number }>()

  const notice: Notice = (kind, message) => {
    const now = clock.currentTimeMillisUnsafe()
    const last = said.get(kind)
    if (last !== undefined && Math.abs(now - last.at) < every) {
      last.leftOut += 1
      return
    }
    const more = last === undefined || last.leftOut === 0 ? "" : ` (and ${last.leftOut} more since the last such line)`
    said.set(kind, { at: now, leftOut: 0 })
    run(Effect.logWarning(`${message}${more}`))
  }
  return notice
})
