/**
 * What every sink must hold to, as `Sink.ts` states it. A sink's own test
 * brings a way to open it against something real and to read what arrived.
 */
import { describe, expect } from "bun:test"
import { Effect, Exit, Fiber, Scope } from "effect"
import type { Entry } from "../../src/journal/Journal.ts"
import type { Reason, Sink, SinkError } from "../../src/sinks/Sink.ts"
import { it } from "../lib/effect.ts"
import { awkward, entries, entry, reasonOf } from "../sinks/samples.ts"

/** A receiver that a sink can be opened against. */
export interface Receiver {
  readonly open: Effect.Effect<Sink, SinkError, Scope.Scope>
  /** The bodies that arrived, in their order. */
  readonly received: Effect.Effect<ReadonlyArray<Uint8Array>>
  /** What the sink holds open at this moment: files, or requests under way. */
  readonly held: Effect.Effect<number>
}

/** A setup that can't work: opening or checking it must say so. */
export interface WrongSetup {
  readonly what: string
  readonly open: Effect.Effect<Sink, SinkError, Scope.Scope>
  readonly reason: Reason["_tag"]
  /** What the message must name. */
  readonly names: string
}

export interface SinkSubject {
  readonly name: string
  readonly receiver: Effect.Effect<Receiver, never, Scope.Scope>
  readonly wrong: Effect.Effect<ReadonlyArray<WrongSetup>, never, Scope.Scope>
}

/** Sends entries as a lane does: in batches within the sink's bounds. */
const sendAll = Effect.fnUntraced(function* (sink: Sink, all: ReadonlyArray<Entry>) {
  for (let at = 0; at < all.length; ) {
    let bytes = 0
    let end = at
    while (end < all.length && end - at < sink.batch.maxEvents) {
      bytes += all[end]?.event.body.length ?? 0
      if (end > at && bytes > sink.batch.maxBytes) break
      end += 1
    }
    const failures = yield* sink.send(all.slice(at, end))
    expect(failures.size).toBe(0)
    at = end
  }
})

const same = (received: ReadonlyArray<Uint8Array>, sent: ReadonlyArray<Entry>) =>
  received.length === sent.length &&
  received.every((body, index) => Buffer.compare(body, sent[index]?.event.body ?? body) === 0)

export const sinkContract = ({ name, receiver, wrong }: SinkSubject): void => {
  describe(`the sink contract: ${name}`, () => {
    it.live("delivers in order, byte for byte", () =>
      Effect.gen(function* () {
        const { open, received } = yield* receiver
        const sent = entries(300)
        yield* sendAll(yield* open, sent)
        expect(same(yield* received, sent)).toBe(true)
      }),
    )

    it.live("settles a full batch at once", () =>
      Effect.gen(function* () {
        const { open, received } = yield* receiver
        const sink = yield* open
        const sent = entries(sink.batch.maxEvents)
        expect((yield* sink.send(sent)).size).toBe(0)
        expect(same(yield* received, sent)).toBe(true)
      }),
    )

    for (const [what, event] of Object.entries(awkward)) {
      it.live(`delivers ${what} as it was signed`, () =>
        Effect.gen(function* () {
          const { open, received } = yield* receiver
          const sent = [entry(1), entry(2, event), entry(3)]
          yield* sendAll(yield* open, sent)
          expect(same(yield* received, sent)).toBe(true)
        }),
      )
    }

    it.live("delivers twice what is sent twice", () =>
      Effect.gen(function* () {
        const { open, received } = yield* receiver
        const sink = yield* open
        yield* sink.send([entry(1)])
        yield* sink.send([entry(1)])
        expect(same(yield* received, [entry(1), entry(1)])).toBe(true)
      }),
    )

    it.live("delivers batches that are in flight together, each once and whole", () =>
      Effect.gen(function* () {
        const { open, received } = yield* receiver
        const sink = yield* open
        yield* Effect.forEach(entries(40), (one) => sink.send([one]), { concurrency: 8 })
        const bodies = (yield* received).map((body) => Buffer.from(body).toString())
        expect(bodies.toSorted()).toEqual(
          entries(40)
            .map(({ event }) => Buffer.from(event.body).toString())
            .toSorted(),
        )
      }),
    )

    it.live("goes on after an interruption at any moment, and holds whole events only", () =>
      Effect.gen(function* () {
        const { open, received } = yield* receiver
        const sink = yield* open
        for (let sequence = 1; sequence <= 20; sequence++) {
          const sending = yield* Effect.forkChild(sink.send([entry(sequence)]), {
            startImmediately: sequence % 2 === 0,
          })
          for (let turn = 0; turn < sequence; turn++) yield* Effect.yieldNow
          yield* Fiber.interrupt(sending)
        }
        yield* sink.send([entry(21)])
        const known = new Set(entries(21).map(({ event }) => Buffer.from(event.body).toString()))
        const bodies = (yield* received).map((body) => Buffer.from(body).toString())
        expect(bodies.filter((body) => !known.has(body))).toEqual([])
        expect(bodies).toContain(Buffer.from(entry(21).event.body).toString())
      }),
    )

    it.live("checks a good setup without sending anything", () =>
      Effect.gen(function* () {
        const { open, received } = yield* receiver
        const sink = yield* open
        yield* sink.check
        expect(yield* received).toEqual([])
      }),
    )

    it.live("releases everything with its scope", () =>
      Effect.gen(function* () {
        const { open, held } = yield* receiver
        const scope = yield* Scope.make()
        const sink = yield* Scope.provide(open, scope)
        yield* sendAll(sink, entries(3))
        yield* Scope.close(scope, Exit.void)
        expect(yield* held).toBe(0)
      }),
    )

    it.live("says of a wrong setup what is wrong, and with what", () =>
      Effect.gen(function* () {
        for (const { what, open, reason, names } of yield* wrong) {
          const found = yield* reasonOf(Effect.scoped(Effect.flatMap(open, (sink) => sink.check)))
          expect({ what, reason: found?._tag }).toEqual({ what, reason })
          expect(found?.message).toContain(names)
        }
      }),
    )
  })
}
