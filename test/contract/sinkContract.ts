/**
 * The contract of a sink. `make` makes a new, empty receiver with a way to open sinks to it.
 *
 * Tests use only the contract, so they don't depend on the implementation. They run against the real thing: a file, a
 * local server, a broker.
 */
import { describe, expect } from "bun:test"
import { Effect, Exit, Fiber, Scope } from "effect"
import type { Entry, Event } from "../../src/event/Event.ts"
import type { Reason, Sink, SinkError } from "../../src/sinks/Sink.ts"
import { effectOf, it, type Steps } from "../lib/effect.ts"
import { canary, entry } from "./sinkEntries.ts"
import { type SinkTypeContract, sinkTypeContract } from "./sinkTypeContract.ts"

/** A receiver, and sinks to it. */
export interface Receiver {
  /** Opens a sink to the receiver; as often as a test wants. */
  readonly open: Effect.Effect<Sink, SinkError, Scope.Scope>
  /**
   * Returns all received events in order, as the bytes that were signed (a mark such as base64 is undone). Waits until
   * there are at least `count`. A receiver that can read its events immediately doesn't need to wait.
   */
  received(count: number): Effect.Effect<ReadonlyArray<Uint8Array>>
  /** The number of resources that open sinks hold and must release: file descriptors, connections. */
  readonly held?: Effect.Effect<number>
}

/**
 * A set-up that can't work, with its expected error. The sink is opened, sent to and checked, and its first failure
 * must have the reason. The message must name the faulty part and the remedy.
 */
export type Wrong = readonly [
  open: Effect.Effect<Sink, SinkError, Scope.Scope>,
  reason: Reason["_tag"],
  says: ReadonlyArray<string | RegExp>,
]

/** The properties of a sink. The defaults hold for most sinks. */
export interface SinkContract {
  /** The contract of the sink's type. One contract of each type needs it. */
  readonly ofType?: SinkTypeContract
  readonly make: Effect.Effect<Receiver, never, Scope.Scope>
  /** The keys complete the title "gives advice about …". */
  readonly wrong?: Readonly<Record<string, Wrong>>
  /** The largest body that the sink carries. It must reject a larger one. If absent, it must carry 1 MiB. */
  readonly maxBody?: number
  /** False if the receiver's own service promises no order. */
  readonly ordered?: boolean
  /** Whether the receiver's own service drops an event if it already has one with the same idempotency key. */
  readonly dropsRepeats?: boolean
  /** Whether a batch that is sent again replaces the earlier one. */
  readonly overwritesRepeats?: boolean
  /** Returns the bytes that must arrive for an event, if they aren't the signed bytes. */
  readonly bytesOf?: (entry: Entry) => Uint8Array
}

const utf8 = new TextEncoder()

const entries = (count: number, from = 1): ReadonlyArray<Entry> =>
  Array.from({ length: count }, (_, index) => entry(from + index))

/**
 * Bodies that don't survive as a text, a line or a header. Bodies with an empty type were signed but aren't envelopes.
 */
export const awkward: Readonly<Record<string, Partial<Event>>> = {
  "a byte order mark": { type: "", id: "", body: utf8.encode('\ufeff{"id":"evt_bom"}') },
  "invalid UTF-8": { type: "", id: "", body: Uint8Array.of(0x7b, 0xff, 0xfe, 0xc3, 0x28, 0x7d) },
  "every byte there is": { type: "", id: "", body: Uint8Array.from({ length: 256 }, (_, byte) => byte) },
  "line feeds": { body: utf8.encode('{\r\n  "id": "evt_lines",\n\n  "x": 1\r}\n') },
  "NUL bytes": { type: "", id: "", body: Uint8Array.of(0, 0x7b, 0, 0x7d, 0) },
  "what looks like a marked line": { body: utf8.encode('{"relay_base64":"AAAA","id":"evt_marked"}') },
  nothing: { type: "", id: "", body: new Uint8Array(0) },
  "text of all planes": { body: utf8.encode('{"id":"ü \u2028 🙂 \u0085"}') },
  "an id and a type that no header, path or line can hold": {
    id: 'evt_\r\nx-evil: 1\u0000\ud800 "ü🙂/../%',
    type: "appointment.\r\nü\u001b[2J",
    accountId: "../..",
    webhookId: "",
    body: utf8.encode('{"id":"evt_hostile"}'),
  },
}

/** Sends like a lane: batches as large as the sink wants, one after the other. */
const sendAll = Effect.fnUntraced(function* (
  sink: Sink,
  all: ReadonlyArray<Entry>,
): Effect.fn.Return<ReadonlyArray<readonly [sequence: number, SinkError]>, SinkError> {
  const failed: Array<readonly [number, SinkError]> = []
  for (let start = 0; start < all.length; ) {
    let end = start
    let bytes = 0
    do bytes += all[end++]?.event.body.length ?? 0
    while (
      end < all.length &&
      end - start < sink.batch.maxEvents &&
      bytes + (all[end]?.event.body.length ?? 0) <= sink.batch.maxBytes
    )
    const batch = all.slice(start, end)
    for (const [index, error] of yield* sink.send(batch)) failed.push([batch[index]?.sequence ?? -1, error])
    start = end
  }
  return failed
})

/**
 * Waits until `held` is `before` again, for five seconds at most, and returns it. A connection ends a moment after its
 * program has closed it.
 */
const settled = Effect.fnUntraced(function* (held: Effect.Effect<number>, before: number) {
  for (let turn = 0; turn < 50 && (yield* held) !== before; turn++) yield* Effect.sleep("100 millis")
  return yield* held
})

const sorted = (all: ReadonlyArray<Uint8Array>): ReadonlyArray<string> =>
  all.map((bytes) => Buffer.from(bytes).toString("latin1")).sort()

/** Tests a sink: `name` is in the titles. */
export const sinkContract = (name: string, contract: SinkContract): void => {
  const {
    ofType,
    make,
    wrong = {},
    maxBody,
    ordered = true,
    dropsRepeats = false,
    overwritesRepeats = false,
    bytesOf = ({ event }) => event.body,
  } = contract

  if (ofType !== undefined) sinkTypeContract(ofType)

  /** A receiver and an open sink. */
  const test = (title: string, body: (sink: Sink, receiver: Receiver) => Steps<void, SinkError, Scope.Scope>) =>
    it.live(title, function* () {
      const receiver = yield* make
      const sink = yield* receiver.open
      yield* effectOf(() => body(sink, receiver))
    })

  const expectBodies = (received: ReadonlyArray<Uint8Array>, sent: ReadonlyArray<Entry>): void => {
    if (ordered) expect(received.map((bytes) => Buffer.from(bytes))).toEqual(sent.map((e) => Buffer.from(bytesOf(e))))
    else expect(sorted(received)).toEqual(sorted(sent.map(bytesOf)))
  }

  describe(`${name}: what it sends`, () => {
    test(
      ordered ? "delivers batches in order, byte for byte" : "delivers batches byte for byte",
      function* (sink, { received }) {
        const sent = entries(25)
        expect(yield* sendAll(sink, sent)).toEqual([])
        expectBodies(yield* received(25), sent)
      },
    )

    test("is readable as soon as a batch settles", function* (sink, { received }) {
      for (const each of entries(3)) {
        yield* sink.send([each])
        const all = yield* received(each.sequence)
        expect(all).toHaveLength(each.sequence)
      }
    })

    for (const [title, more] of Object.entries(awkward)) {
      test(`carries ${title} unchanged, and the events before and after it`, function* (sink, { received }) {
        const sent = [entry(1), entry(2, more), entry(3)]
        expect(yield* sendAll(sink, sent)).toEqual([])
        expectBodies(yield* received(3), sent)
      })
    }

    if (maxBody === undefined) {
      test("carries 1 MiB", function* (sink, { received }) {
        const body = Uint8Array.from({ length: 1024 * 1024 }, (_, index) => (index * 7) % 251)
        const sent = [entry(1), entry(2, { type: "", id: "", body }), entry(3)]
        expect(yield* sendAll(sink, sent)).toEqual([])
        expectBodies(yield* received(3), sent)
      })
    } else {
      test("rejects events that it can't carry, says why, and sends the rest of the batch", function* (sink, {
        received,
      }) {
        const body = utf8.encode(`{"id":"evt_2","x":"${"x".repeat(maxBody)}"}`)
        const sent = [entry(1), entry(2, { body }), entry(3)]
        const failed = yield* Effect.catch(sendAll(sink, sent), (error) => Effect.succeed([[2, error] as const]))
        expect(failed.map(([sequence, error]) => [sequence, error.reason._tag])).toEqual([[2, "DeliveryRejected"]])
        expect(failed[0]?.[1].message).toMatch(/\d/)
        expectBodies(yield* received(2), [entry(1), entry(3)])
      })
    }

    if (dropsRepeats) {
      test("arrives once if it is sent twice, and both of two events with the same bytes arrive", function* (sink, {
        received,
      }) {
        const sent = entries(3)
        const again = { ...entry(4, { body: entry(1).event.body }), replayed: true }
        expect(yield* sendAll(sink, sent)).toEqual([])
        expect(yield* sendAll(sink, [...sent, again])).toEqual([])
        expectBodies(yield* received(4), [...sent, again])
      })
    } else if (overwritesRepeats) {
      test("arrives once if the same batch is sent twice, and again in another batch", function* (sink, { received }) {
        const sent = entries(3)
        yield* sendAll(sink, sent)
        yield* sendAll(sink, sent)
        expectBodies(yield* received(3), sent)
        const other = [...sent, entry(4)]
        yield* sendAll(sink, other)
        expect(sorted(yield* received(7))).toEqual(sorted([...sent, ...other].map(bytesOf)))
      })
    } else {
      test("arrives twice if it is sent twice", function* (sink, { received }) {
        const sent = entries(3)
        yield* sendAll(sink, sent)
        yield* sendAll(sink, sent)
        expectBodies(yield* received(6), [...sent, ...sent])
      })
    }

    test("sends nothing for an empty batch", function* (sink, { received }) {
      expect((yield* sink.send([])).size).toBe(0)
      yield* sink.send([entry(1)])
      expectBodies(yield* received(1), [entry(1)])
    })

    test("sends nothing when it is checked", function* (sink, { received }) {
      yield* sink.check
      yield* sink.send([entry(1)])
      expectBodies(yield* received(1), [entry(1)])
    })

    test("accepts as many concurrent batches as a lane may send", function* (sink, { received }) {
      const sent = entries(40)
      yield* Effect.forEach(sent, (each) => sink.send([each]), { concurrency: 16 })
      expect(sorted(yield* received(40))).toEqual(sorted(sent.map(bytesOf)))
    })
  })

  describe(`${name}: how it ends`, () => {
    test("is whole after an interruption: the next batch arrives, and nothing came in parts", function* (sink, {
      received,
    }) {
      const interrupted = entries(20)
      for (const [index, each] of interrupted.entries()) {
        const sending = yield* Effect.forkChild(sink.send([each]), { startImmediately: index % 2 === 0 })
        for (let turn = index % 5; turn > 0; turn--) yield* Effect.yieldNow
        yield* Fiber.interrupt(sending)
      }
      const sent = entries(3, 100)
      expect(yield* sendAll(sink, sent)).toEqual([])
      const bodies = new Set(sorted([...interrupted, ...sent].map(bytesOf)))
      const last = sent.map((each) => Buffer.from(bytesOf(each)).toString("latin1"))
      let all: ReadonlyArray<string> = []
      for (let count = sent.length; !last.every((body) => all.includes(body)); count++) {
        all = sorted(yield* received(count))
      }
      expect(all.filter((body) => !bodies.has(body))).toEqual([])
    })

    it.live("gives everything back when its scope closes, and opens again", function* () {
      const { open, received, held = Effect.succeed(0) } = yield* make
      const before = yield* held
      for (const round of [1, 2, 3]) {
        const scope = yield* Scope.make()
        const sink = yield* Scope.provide(open, scope)
        yield* sink.send([entry(round)])
        yield* Scope.close(scope, Exit.void)
      }
      expect(yield* settled(held, before)).toBe(before)
      expectBodies(yield* received(3), entries(3))
    })

    it.live("gives everything back when it is closed in the middle of a batch", function* () {
      const { open, held = Effect.succeed(0) } = yield* make
      const before = yield* held
      const scope = yield* Scope.make()
      const sink = yield* Scope.provide(open, scope)
      const sending = yield* Effect.forkChild(sink.send([entry(1)]), { startImmediately: true })
      yield* Fiber.interrupt(sending)
      yield* Scope.close(scope, Exit.void)
      expect(yield* settled(held, before)).toBe(before)
    })
  })

  describe(`${name}: what it says`, () => {
    for (const [title, [open, reason, says]] of Object.entries(wrong)) {
      it.live(`gives advice about ${title}`, function* () {
        const error = yield* Effect.flip(
          Effect.gen(function* () {
            const sink = yield* open
            const failure = (yield* sink.send([entry(1)])).get(0)
            if (failure !== undefined) return yield* failure
            yield* sink.check
          }),
        )
        expect({ reason: error.reason._tag, message: error.message }).toMatchObject({ reason })
        for (const text of says) expect(error.message).toMatch(text)
        expect(error.message).not.toContain(canary)
        expect(JSON.stringify(error)).not.toContain(canary)
        expect(error.message).not.toMatch(/\n|\bat .+:\d+:\d+/)
      })
    }
  })
}
