/**
 * Reads request bodies with limits: bytes of each, bytes of all together, and
 * time. Deno has none of these limits; Bun has the first and an idle timeout.
 *
 * **Guarantee.** A sender can't reserve memory by declaring a length: only the
 * memory of bytes that have arrived counts. A slow sender can't keep others out
 * either. When the limit is reached, the oldest body that is still arriving is
 * cut off, as often as it takes. Bodies from verified senders go last. A new body
 * is refused only if everything waits for the disk. The memory of a body that is
 * cut off is free at once, except for the part that the runtime keeps, which is
 * collected after a number of bodies.
 *
 * A small body of declared length, as nearly all are, is read in one call. How
 * much of it has arrived can't be seen, so those that are being read count in
 * full, against a limit of their own. Any other body is counted while it
 * arrives.
 */
import { Clock, Duration, Effect, type Scope } from "effect"
import * as Monotonic from "../event/Monotonic.ts"
import { rounds } from "../event/Rounds.ts"
import { free } from "../runtime/RequestGuard.ts"

// Memory for bodies that are arriving: blocks of one size, which are used again.
// Buffers of each body's own would leave gaps of many sizes, and wait for the
// collector.

/** Bytes of a block. */
const blockSize = 16 * 1024

type Bytes = Uint8Array<ArrayBuffer>

/** Bytes of the blocks that hold `size` bytes. */
export const bytesFor = (size: number): number => Math.ceil(size / blockSize) * blockSize

interface Blocks {
  /** Writes `chunk` after the first `size` bytes of `blocks`. */
  readonly append: (blocks: Array<Bytes>, size: number, chunk: Uint8Array) => void
  /** Copies `size` bytes out of `blocks`, and takes the blocks back. */
  readonly join: (blocks: ReadonlyArray<Bytes>, size: number) => Bytes
  /** Takes blocks back. */
  readonly give: (blocks: ReadonlyArray<Bytes>) => void
  /** Frees half of the blocks that are not in use. */
  readonly trim: () => void
}

export const makeBlocks = (): Blocks => {
  const spare: Array<Bytes> = []
  const give = (blocks: ReadonlyArray<Bytes>) => {
    for (const block of blocks) spare.push(block)
  }
  return {
    append: (blocks, size, chunk) => {
      let at = 0
      while (at < chunk.byteLength) {
        const offset = (size + at) % blockSize
        if (offset === 0) blocks.push(spare.pop() ?? new Uint8Array(blockSize))
        const part = chunk.subarray(at, at + blockSize - offset)
        blocks.at(-1)?.set(part, offset)
        at += part.byteLength
      }
    },
    join: (blocks, size) => {
      const body = new Uint8Array(size)
      blocks.forEach((block, index) => {
        const start = index * blockSize
        body.set(size - start < blockSize ? block.subarray(0, size - start) : block, start)
      })
      give(blocks)
      return body
    },
    give,
    trim: () => {
      for (const { buffer } of spare.splice(0, Math.ceil(spare.length / 2))) buffer.transfer(0)
    },
  }
}

/** Why there is no body. */
export type Unread = "tooLarge" | "tooMany" | "tooSlow" | "brokenOff"

/** Reads bodies, within the limits that all of them share. */
interface Bodies {
  /**
   * The raw bytes, or why there are none. `declared` is the Content-Length.
   * The bytes count as in flight until `release`. A body of a verified sender is cut off after all others.
   */
  readonly read: (
    request: Request,
    declared: number | undefined,
    max: number,
    isVerified: boolean,
  ) => Unread | Promise<Uint8Array | Unread>
  readonly release: (bytes: number) => void
  /** Frees the memory of a body that was read and is not kept. The body is empty from then on. */
  readonly free: (body: Uint8Array) => void
}

interface BodiesOptions {
  /** This counts the bytes in flight. */
  readonly gauge: { bytesInFlight: number }
  /** Bytes of all bodies together. */
  readonly maxInFlight: number
  /** How long a body may take. */
  readonly deadline: Duration.Duration
  /** How long its first byte may take; not for a small body. */
  readonly firstByte: Duration.Duration
  /** Collects garbage. */
  readonly collect: () => void
}

/** Memory of all bodies that are arriving, small ones excluded. One body alone may take more. */
export const maxArriving = 32 * 1024 * 1024
/** Declared bytes of all small bodies that are arriving. */
export const maxSmall = 16 * 1024 * 1024
/** Bytes up to which a body of declared length is read in one call. */
const small = 16 * 1024

/** Whether a body is read in one call, by its declared length. */
export const isSmall = (declared: number | undefined): declared is number => declared !== undefined && declared <= small

/** How often deadlines are checked. */
const sweepEvery = Duration.seconds(1)

/** Bytes that Bun keeps of a body that was cut off until garbage is collected. Its collector doesn't count them. */
const keptOfCutOff = 384 * 1024
/** Bytes that bodies may leave until garbage is collected. */
const maxGarbage = 24 * 1024 * 1024

/** Asks for a collection before a body is read, if those before it have left too much. */
const collector = (collect: () => void) => {
  let garbage = 0
  return {
    leave: (bytes: number): void => {
      garbage += bytes
    },
    collectIfFull: (): void => {
      if (garbage <= maxGarbage) return
      garbage = 0
      collect()
    },
  }
}

/** A body that is being read. */
interface Reading {
  /** When all of it, or its first byte, must have arrived: monotonic milliseconds. */
  due: number
  /** Bytes of memory that count for it. */
  held: number
  /** Whether it is cut off after all others. */
  readonly isVerified: boolean
  readonly cancel: (why: Unread) => void
}

/**
 * Bodies that are being read, the oldest first. Not a set: what JavaScriptCore's sets and maps held at their last
 * rehash stays until a full collection, and with each reading its request and body would.
 */
type Readings = Array<Reading>

/** False where it was removed before. The newest end first, so it is looked for from the end. */
const remove = (readings: Readings, reading: Reading): boolean => {
  const index = readings.lastIndexOf(reading)
  if (index >= 0) readings.splice(index, 1)
  return index >= 0
}

/** Cancels the oldest until no more than `max` bytes are taken, or one body alone takes more. Verified senders go last. */
const makeRoom = (readings: Readings, max: number, taken: () => number): void => {
  const holding = readings.filter(({ held }) => held > 0)
  for (const reading of holding.toSorted((a, b) => Number(a.isVerified) - Number(b.isVerified))) {
    if (taken() <= max || taken() === reading.held) return
    reading.cancel("tooMany")
  }
}

/** Makes a reader whose deadlines are checked until the scope closes. */
export const make = Effect.fnUntraced(function* (options: BodiesOptions): Effect.fn.Return<Bodies, never, Scope.Scope> {
  const { gauge, maxInFlight } = options
  const clock = yield* Clock.Clock
  const now = () => Monotonic.millis(clock)
  const smalls: Readings = []
  const counted: Readings = []
  const pool = makeBlocks()
  const { leave, collectIfFull } = collector(options.collect)
  /** Bytes of memory that counted bodies take while they arrive. */
  let arriving = 0
  /** Declared bytes of small bodies that are being read. */
  let declaredBytes = 0

  const deadline = Duration.toMillis(options.deadline)
  const firstByte = Duration.toMillis(options.firstByte)
  const sweep = Effect.sync(() => {
    pool.trim()
    const time = now()
    for (const readings of [smalls, counted]) {
      for (const reading of [...readings]) if (reading.due <= time) reading.cancel("tooSlow")
    }
  })
  yield* Effect.forkScoped(Effect.delay(rounds("ending slow requests", sweep, sweepEvery), sweepEvery))

  const isFull = () => {
    if (arriving > maxArriving) makeRoom(counted, maxArriving, () => arriving)
    if (gauge.bytesInFlight <= maxInFlight) return false
    makeRoom(counted, maxInFlight, () => gauge.bytesInFlight)
    return gauge.bytesInFlight > maxInFlight
  }

  const readSmall = (request: Request, declared: number): Promise<Uint8Array | Unread> =>
    new Promise((resolve) => {
      const finish = (body: ArrayBuffer | Unread) => {
        if (!remove(smalls, reading)) return
        declaredBytes -= declared
        if (typeof body === "string") return resolve(body)
        gauge.bytesInFlight += body.byteLength
        if (!isFull()) return resolve(new Uint8Array(body))
        gauge.bytesInFlight -= body.byteLength
        resolve("tooMany")
      }
      const reading: Reading = { due: now() + deadline, held: declared, isVerified: false, cancel: finish }
      smalls.push(reading)
      declaredBytes += declared
      if (declaredBytes > maxSmall) makeRoom(smalls, maxSmall, () => declaredBytes)
      // Not bytes(): under Bun it costs 2 µs more than the buffer it wraps.
      request.arrayBuffer().then(finish, () => finish("brokenOff"))
    })

  const readCounted = async (request: Request, max: number, isVerified: boolean): Promise<Uint8Array | Unread> => {
    collectIfFull()
    const reader = request.body?.getReader()
    if (reader === undefined) return new Uint8Array(0)
    let unread: Unread | undefined
    let blocks: Array<Uint8Array<ArrayBuffer>> = []
    let size = 0
    /** From now on it counts with these bytes. */
    const count = (bytes: number) => {
      gauge.bytesInFlight += bytes - reading.held
      arriving += bytes - reading.held
      reading.held = bytes
    }
    const reading: Reading = {
      due: now() + firstByte,
      held: 0,
      isVerified,
      cancel: (why) => {
        if (!remove(counted, reading)) return
        unread = why
        leave(keptOfCutOff)
        count(0)
        pool.give(blocks)
        blocks = []
        // The guard discards the rest.
        if (why === "tooLarge") reader.releaseLock()
        else reader.cancel().catch(() => {})
      },
    }
    const latest = now() + deadline
    counted.push(reading)
    try {
      while (unread === undefined) {
        const { done, value } = await reader.read()
        if (done || unread !== undefined) break
        const needed = size + value.byteLength
        if (needed > max) reading.cancel("tooLarge")
        else {
          reading.due = latest
          count(bytesFor(needed))
          if (isFull()) reading.cancel("tooMany")
        }
        if (unread === undefined) pool.append(blocks, size, value)
        size = needed
        free(value)
      }
    } catch {
      reading.cancel("brokenOff")
    }
    remove(counted, reading)
    if (unread !== undefined) return unread
    count(size)
    arriving -= size
    leave(size)
    return pool.join(blocks, size)
  }

  return {
    read: (request, declared, max, isVerified) => {
      if (declared !== undefined && declared > max) return "tooLarge"
      return isSmall(declared) ? readSmall(request, declared) : readCounted(request, max, isVerified)
    },
    release: (bytes) => {
      gauge.bytesInFlight -= bytes
    },
    free,
  }
})
