/** Which relay may deliver a stream, even while relays don't know yet that another relay owns it. */
import { expect } from "bun:test"
import { Effect, SubscriptionRef } from "effect"
import type { OwnedStream } from "../../../../src/journal/postgres/lanes/OwnedStream.ts"
import { sharedStream } from "../../../../src/journal/Sequences.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { type Relay, relays, seconds } from "../relays.ts"

/** The streams that a relay may deliver now. */
const delivering = ({ journal }: Relay): ReadonlyArray<number> => {
  const streams = journal.streams === undefined ? [] : SubscriptionRef.getUnsafe(journal.streams)
  return (streams as ReadonlyArray<OwnedStream>).filter((stream) => stream.mayStart()).map(({ id }) => id)
}

/** Lets time pass until a relay may deliver streams; at no moment does another deliver them too. */
const until = Effect.fnUntraced(function* (relay: Relay, streams: ReadonlyArray<number>, other: Relay) {
  for (;;) {
    const mine = delivering(relay)
    const both = delivering(other).filter((id) => mine.includes(id))
    expect(both).toEqual([])
    if (streams.every((id) => mine.includes(id))) return
    yield* seconds(0.5)
  }
})

/**
 * The first stream belongs to the relay `a`, which was frozen. The other relay has taken over that stream and the
 * shared one.
 */
const takenOver = Effect.gen(function* () {
  const all = yield* relays
  const [a, b] = [yield* all.start("a"), yield* all.start("b")]
  yield* seconds(2)
  expect(delivering(a)).toEqual([0, sharedStream])
  const before = yield* all.sql("SELECT id, epoch::text FROM relay.stream WHERE id < 2")
  a.freeze()
  yield* until(b, [0, sharedStream], a)
  return { ...all, a, b, before }
})

suiteUnless(reasonToSkip(), "a stream that changes hands", () => {
  it.effect("is delivered by one relay if a promoted server names a former owner", function* () {
    const { a, b, before, sql, promote } = yield* takenOver
    for (const { id, epoch } of before)
      yield* sql(`UPDATE relay.stream SET owner = 'a', epoch = ${epoch} WHERE id = ${id}`)
    yield* promote(2)
    // The relay has not heard of the promotion, and may continue until its lease ends.
    b.freeze()
    a.thaw()
    yield* until(a, [0, sharedStream], b)
  })

  it.effect("is delivered by one relay where its owner of before did not hear that it has it again", function* () {
    const { a, b } = yield* takenOver
    a.fails("lost")
    a.thaw()
    yield* seconds(0.5)
    b.freeze()
    yield* seconds(1)
    a.fails(undefined)
    yield* until(a, [0], b)
  })

  it.effect("is delivered without a gap by the relay that owned it until the promotion", function* () {
    const { start, promote } = yield* relays
    const a = yield* start("a")
    yield* seconds(2)
    yield* promote(2)
    yield* seconds(2)
    expect(delivering(a)).toEqual([0, sharedStream])
  })
})
