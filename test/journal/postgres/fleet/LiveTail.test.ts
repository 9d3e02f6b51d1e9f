import { expect } from "bun:test"
import { Clock, Effect } from "effect"
import * as LiveTail from "../../../../src/admin/api/LiveTail.ts"
import * as RecentRefusals from "../../../../src/ingest/RecentRefusals.ts"
import { Journal } from "../../../../src/journal/Journal.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event } from "../../samples.ts"
import { relays, seconds } from "../relays.ts"

suiteUnless(reasonToSkip(), "a tap on a relay that loses its stream for a moment", () => {
  it.effect("counts as skipped only events that existed", function* () {
    const { start, promote } = yield* relays
    // The second relay's stream starts far above the first sequences.
    yield* start("first")
    const { journal } = yield* start("second")
    const recent = RecentRefusals.make(yield* Clock.Clock)
    const ask = (after?: LiveTail.Position) =>
      Effect.provideService(LiveTail.newsSince({}, recent, after), Journal, journal)
    yield* journal.append(event("one"), [])
    let { next } = yield* ask()
    yield* promote(2)
    // The relay finds that it no longer owns the stream.
    yield* Effect.exit(journal.append(event("two"), []))
    for (let asked = 0; asked < 24; asked++) {
      const answer = yield* ask(next)
      expect(answer.news.skipped).toBe(0)
      next = answer.next
      yield* seconds(0.5)
    }
    yield* journal.append(event("three"), [])
    expect((yield* ask(next)).news.events.map(({ id }) => id)).toEqual(["three"])
  })
})
