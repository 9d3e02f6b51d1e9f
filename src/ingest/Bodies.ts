/**
 * Reads bodies: at most so many bytes each, at most so many in flight together,
 * and none for longer than its deadline. Deno limits none of these, Bun only
 * the first and the silence between two bytes.
 *
 * A small body of a declared length is read in one go, as nearly all are;
 * anything else is counted while it comes.
 */
import { Clock, Duration, Effect, type Scope } from "effect"

/** Why there is no body. */
export type Unread = "too large" | "too many" | "too slow" | "broken off"

export interface Bodies {
  /**
   * The raw bytes, or why there are none. `declared` is the Content-Length.
   * Bytes that were read count as in flight until `release`.
   */
  readonly read: (request: Request, declared: number | undefined, max: number) => Unread | Promise<Uint8Array | Unread>
  readonly release: (bytes: number) => void
}

export interface BodiesOptions {
  /** Where the bytes in flight are counted. */
  readonly gauge: { bytesInFlight: number }
  /** Bytes of all bodies together. */
  readonly maxInFlight: number
  /** How long a body may take; it is looked at every tenth of it. */
  readonly deadline: Duration.Duration
}

/** Bytes up to which a declared body is trusted to fit into memory before it has come. */
const small = 64 * 1024

/** A body that is being read. */
interface Reading {
  readonly since: number
  readonly giveUp: (why: Unread) => void
}

const join = (chunks: ReadonlyArray<Uint8Array>, size: number): Uint8Array => {
  const [first] = chunks
  if (first !== undefined && chunks.length === 1) return first
  const whole = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.byteLength
  }
  return whole
}

export const make = Effect.fnUntraced(function* (options: BodiesOptions): Effect.fn.Return<Bodies, never, Scope.Scope> {
  const { gauge, maxInFlight } = options
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  const readings = new Set<Reading>()

  const deadline = Duration.toMillis(options.deadline)
  const sweep = Effect.sync(() => {
    const latest = now() - deadline
    for (const reading of readings) {
      // A set is in the order of insertion.
      if (reading.since > latest) break
      reading.giveUp("too slow")
    }
  })
  yield* Effect.forkScoped(Effect.forever(Effect.delay(sweep, Duration.millis(deadline / 10))))

  const readSmall = (request: Request, declared: number): Promise<Uint8Array | Unread> =>
    new Promise((resolve) => {
      gauge.bytesInFlight += declared
      const reading = { since: now(), giveUp: (why: Unread) => finish(why) }
      readings.add(reading)
      const finish = (body: Uint8Array | Unread) => {
        if (!readings.delete(reading)) return
        gauge.bytesInFlight += (typeof body === "string" ? 0 : body.byteLength) - declared
        resolve(body)
      }
      // Not bytes(): under Bun it costs 2 µs more than the buffer it wraps.
      request.arrayBuffer().then(
        (buffer) => finish(new Uint8Array(buffer)),
        () => finish("broken off"),
      )
    })

  const readCounted = async (request: Request, max: number): Promise<Uint8Array | Unread> => {
    const reader = request.body?.getReader()
    if (reader === undefined) return new Uint8Array(0)
    let unread: Unread | undefined
    const giveUp = (why: Unread) => {
      unread = why
      reader.cancel().catch(() => {})
    }
    const reading = { since: now(), giveUp }
    readings.add(reading)
    const chunks: Array<Uint8Array> = []
    let size = 0
    try {
      while (unread === undefined) {
        const { done, value } = await reader.read()
        if (done) break
        chunks.push(value)
        size += value.byteLength
        gauge.bytesInFlight += value.byteLength
        if (size > max) giveUp("too large")
        else if (gauge.bytesInFlight > maxInFlight) giveUp("too many")
      }
    } catch {
      unread ??= "broken off"
    } finally {
      readings.delete(reading)
    }
    if (unread === undefined) return join(chunks, size)
    gauge.bytesInFlight -= size
    return unread
  }

  return {
    read: (request, declared, max) => {
      if (declared !== undefined && declared > max) return "too large"
      if (gauge.bytesInFlight + (declared ?? 0) > maxInFlight) return "too many"
      return declared !== undefined && declared <= small ? readSmall(request, declared) : readCounted(request, max)
    },
    release: (bytes) => {
      gauge.bytesInFlight -= bytes
    },
  }
})
