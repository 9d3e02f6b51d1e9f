/**
 * Reads request bodies with limits on the bytes of each body, the bytes of all
 * bodies, and time. Deno has none of these limits; Bun has the first and an idle
 * timeout.
 *
 * **Guarantee.** A sender can't reserve memory by declaring a length: only the
 * memory of bytes that have arrived counts. A slow sender can't block others either.
 * When the limit is reached, the oldest bodies that are still arriving are cut off
 * until there is space, bodies from verified senders last. A new body is refused
 * only if all other bodies wait for the disk. The memory of a cut-off body is freed
 * immediately, except for the part that the runtime keeps, which is collected after
 * a number of bodies.
 *
 * Nearly all bodies are small and of declared length. Such a body is read in one
 * call. It is unknown how much of it has arrived, so it counts in full, against a
 * separate limit. Any other body is counted as it arrives.
 */
import { Clock, Duration, Effect, type Scope } from "effect"
import * as Monotonic from "../event/Monotonic.ts"
import { rounds } from "../event/Rounds.ts"
import { free } from "../runtime/RequestGuard.ts"
import { gunzip, peerOf } from "../runtime/Runtime.ts"

// Memory for arriving bodies, in reusable blocks of one size. A separate buffer for each body would fragment the memory
// and wait for the garbage collector.

/** Bytes of a block. */
const blockSize = 16 * 1024

type Bytes = Uint8Array<ArrayBuffer>

/** Returns the bytes of the blocks needed for `size` bytes. */
export const bytesFor = (size: number): number => Math.ceil(size / blockSize) * blockSize

interface Blocks {
  /** Writes `chunk` after the first `size` bytes of `blocks`. */
  readonly append: (blocks: Array<Bytes>, size: number, chunk: Uint8Array) => void
  /** Copies `size` bytes out of `blocks` and takes the blocks back for reuse. */
  readonly join: (blocks: ReadonlyArray<Bytes>, size: number) => Bytes
  /** Takes blocks back for reuse. */
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

/** Why a body could not be read. */
export type Unread = "tooLarge" | "tooMany" | "tooSlow" | "brokenOff"

/** Reads bodies within limits that they share. */
interface Bodies {
  /**
   * Returns the raw bytes, or the reason why there are none. `declared` is the Content-Length. The bytes count as in
   * flight until `release`. Bodies of verified senders are cut off after all others.
   */
  readonly read: (
    request: Request,
    declared: number | undefined,
    max: number,
    isVerified: boolean,
  ) => Unread | Promise<Uint8Array | Unread>
  readonly release: (bytes: number) => void
  /** Unpacks a gzip body of at most `max` bytes. The unpacked bytes then count instead of the packed ones. */
  readonly unpack: (packed: Uint8Array, max: number) => Promise<Uint8Array | "tooLarge" | "tooMany" | "notGzip">
  /** Frees the memory of a body that is not kept. The body is empty afterwards. */
  readonly free: (body: Uint8Array) => void
}

interface BodiesOptions {
  /** Counts the bytes in flight. */
  readonly gauge: { bytesInFlight: number }
  /** Maximum bytes of all bodies together. */
  readonly maxInFlight: number
  /** Time limit for a body. */
  readonly deadline: Duration.Duration
  /** Time limit for a body's first byte, except for small bodies. */
  readonly firstByte: Duration.Duration
  /** Collects garbage. */
  readonly collect: () => void
}

/** Maximum memory of all arriving bodies, except small ones. A single body may exceed it. */
export const maxArriving = 32 * 1024 * 1024
/** Maximum declared bytes of all arriving small bodies. */
export const maxSmall = 16 * 1024 * 1024
/** Maximum declared length of a body that is read in one call. */
const small = 16 * 1024

/** Reports whether a body of this declared length is read in one call. */
export const isSmall = (declared: number | undefined): declared is number => declared !== undefined && declared <= small

/** How often deadlines are checked. */
const sweepEvery = Duration.seconds(1)

/** Bytes that Bun keeps for each cut-off body until garbage is collected. Its collector doesn't count them. */
const keptOfCutOff = 384 * 1024
/** Bytes that bodies may leave before garbage is collected. */
const maxGarbage = 24 * 1024 * 1024

/** Starts a collection before a body is read, if earlier bodies have left too much garbage. */
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
  /** Deadline for the first byte, and later for the whole body, in monotonic milliseconds. */
  due: number
  /** Bytes of memory that it counts for. */
  held: number
  /** Whether it is cut off after all others. */
  readonly isVerified: boolean
  readonly cancel: (why: Unread) => void
}

/**
 * Bodies that are being read, oldest first. An array, because JavaScriptCore's sets
 * and maps keep entries from their last rehash alive until a full collection, and
 * each entry would keep its request and body alive.
 */
type Readings = Array<Reading>

/** Returns false if it was already removed. Searches from the end, because the newest readings usually finish first. */
const remove = (readings: Readings, reading: Reading): boolean => {
  const index = readings.lastIndexOf(reading)
  if (index >= 0) readings.splice(index, 1)
  return index >= 0
}

/**
 * Cancels the oldest bodies, those of verified senders last, until at most `max`
 * bytes are taken or only one body remains.
 */
const makeRoom = (readings: Readings, max: number, taken: () => number): void => {
  const holding = readings.filter(({ held }) => held > 0)
  for (const reading of holding.toSorted((a, b) => Number(a.isVerified) - Number(b.isVerified))) {
    if (taken() <= max || taken() === reading.held) return
    reading.cancel("tooMany")
  }
}

/** Makes `unpack` of {@link Bodies}. */
const unpacking =
  (gauge: BodiesOptions["gauge"], isFull: () => boolean): Bodies["unpack"] =>
  async (packed, max) => {
    // The size is unknown, so the largest counts until then.
    gauge.bytesInFlight += max
    const unpacked = isFull() ? "tooMany" : await gunzip(packed, max)
    gauge.bytesInFlight -= max
    if (typeof unpacked === "string") return unpacked
    gauge.bytesInFlight += unpacked.byteLength - packed.byteLength
    return unpacked
  }

/** Makes a reader. Its deadlines are checked until the scope closes. */
export const make = Effect.fnUntraced(function* (options: BodiesOptions): Effect.fn.Return<Bodies, never, Scope.Scope> {
  const { gauge, maxInFlight } = options
  const clock = yield* Clock.Clock
  const now = () => Monotonic.millis(clock)
  const smalls: Readings = []
  const counted: Readings = []
  const pool = makeBlocks()
  const { leave, collectIfFull } = collector(options.collect)
  /** Bytes of memory of counted bodies that are arriving. */
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
      // Not `bytes()`, which under Bun takes 2 µs longer than the buffer it wraps.
      request.arrayBuffer().then(finish, () => finish("brokenOff"))
    })

  const readCounted = async (request: Request, max: number, isVerified: boolean): Promise<Uint8Array | Unread> => {
    collectIfFull()
    const reader = request.body?.getReader()
    if (reader === undefined) return new Uint8Array(0)
    let unread: Unread | undefined
    let blocks: Array<Uint8Array<ArrayBuffer>> = []
    let size = 0
    /** Counts this body with this many bytes from now on. */
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
    ...{ free, unpack: unpacking(gauge, isFull) },
  }
})

// Finds the address of a request's sender. The log and `relay status` show it, and it decides which bodies are cut off
// last. It is not authenticated.

/** An IPv4 or IPv6 address, with or without a port. Other text in the header is not trusted. */
const address =
  /^(?:(?<v4>\d{1,3}(?:\.\d{1,3}){3})(?::\d{1,5})?|\[(?<bracketed>[\da-f:.]{2,45})\](?::\d{1,5})?|(?<v6>[\da-f:.]{2,45}))$/i

/** The sender in an element of the header `Forwarded` (RFC 7239): `for=192.0.2.60;proto=https`. */
const forwarded = /(?:^|;)\s*for\s*=\s*("?)(?<sender>[^";]*)\1\s*(?:;|$)/i

/**
 * Returns the last address in `header`, which the nearest proxy has added. Otherwise
 * returns the connection's address, or an empty string if neither is known. The port
 * is left out, because it differs with each connection.
 */
export const senderAddress = (request: Request, header: string | undefined): string => {
  const last = header === undefined ? undefined : request.headers.get(header)?.split(",").at(-1)?.trim()
  const named = header?.toLowerCase() === "forwarded" ? forwarded.exec(last ?? "")?.groups?.sender : last
  const { v4, bracketed, v6 } = address.exec(named ?? "")?.groups ?? {}
  return v4 ?? bracketed ?? v6 ?? peerOf(request)
}

// The addresses whose last large delivery was verified. If the relay is flooded with bodies, bodies from these
// addresses are cut off last. This is a preference, not a protection: behind a proxy whose header the config doesn't
// trust, all senders have the same address.

/** Maximum number of remembered addresses. */
export const mostVerified = 4096

interface VerifiedSenders {
  readonly has: (address: string) => boolean
  /** Called for each large delivery. `address` is empty if it is unknown. */
  readonly note: (address: string, isVerified: boolean) => void
}

/** Makes an empty list. */
export const makeVerifiedSenders = (): VerifiedSenders => {
  /** In the order in which they were last noted, oldest first. */
  const known = new Set<string>()
  return {
    has: (address) => known.has(address),
    note: (address, isVerified) => {
      if (address === "") return
      known.delete(address)
      if (isVerified) known.add(address)
      const [oldest] = known
      if (known.size > mostVerified && oldest !== undefined) known.delete(oldest)
    },
  }
}
