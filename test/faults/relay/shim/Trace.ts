/**
 * Simulates a power cut. A disk keeps synced writes. It keeps none of the unsynced writes, or any part of them, in any
 * order.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs"

/** Sectors that are written whole or not at all. */
const sector = 512

interface Write {
  readonly offset: number
  /** `undefined` cuts the file off at `offset`. */
  readonly bytes?: Buffer
}

/** A file's content on the disk, and its pending writes. */
class Image {
  #bytes: Buffer
  #length: number
  #pending: Array<Write> = []
  /** Number of `pending` writes that a sync in progress includes. */
  #underWay = 0

  constructor(before: Buffer) {
    this.#bytes = before
    this.#length = before.length
  }

  write(write: Write): void {
    this.#pending.push(write)
  }

  syncBegins(): void {
    this.#underWay = this.#pending.length
  }

  syncEnds(): void {
    for (const write of this.#pending.splice(0, this.#underWay)) this.#apply(write)
    this.#underWay = 0
  }

  /** Unsynced writes are all lost without `random`; else each is lost, kept, or torn. */
  cut(random?: () => number): Buffer {
    if (random !== undefined) {
      for (const { offset, bytes } of this.#pending) {
        const fate = random()
        if (fate < 0.4) continue
        if (bytes === undefined || fate < 0.8) this.#apply({ offset, ...(bytes === undefined ? {} : { bytes }) })
        else this.#apply({ offset, bytes: bytes.subarray(0, Math.floor((random() * bytes.length) / sector) * sector) })
      }
    }
    return this.#bytes.subarray(0, this.#length)
  }

  /** Writes that a cut puts at risk. */
  get unsynced(): number {
    return this.#pending.length
  }

  #apply({ offset, bytes }: Write): void {
    if (bytes === undefined) {
      this.#bytes.fill(0, Math.min(offset, this.#length), this.#length)
      this.#length = offset
      return
    }
    const end = offset + bytes.length
    if (end > this.#bytes.length) {
      const grown = Buffer.alloc(Math.max(end, this.#bytes.length * 2))
      this.#bytes.copy(grown, 0, 0, this.#length)
      this.#bytes = grown
    }
    bytes.copy(this.#bytes, offset)
    this.#length = Math.max(this.#length, end)
  }
}

const head = 24

/** Applies the recorded calls to the files' earlier content. Returns the images. */
const replay = (trace: string, before: ReadonlyMap<string, Buffer>): Map<string, Image> => {
  const images = new Map([...before].map(([path, bytes]) => [path, new Image(Buffer.from(bytes))]))
  const log = readFileSync(trace)
  for (let place = 0; place + head <= log.length; ) {
    const kind = String.fromCharCode(log.readUInt32LE(place))
    const pathLength = log.readUInt32LE(place + 4)
    const offset = Number(log.readBigInt64LE(place + 8))
    const length = Number(log.readBigInt64LE(place + 16))
    const start = place + head + pathLength
    place = start + length
    const path = log.toString("utf8", start - pathLength, start)
    const image = images.get(path) ?? new Image(Buffer.alloc(0))
    images.set(path, image)
    if (kind === "W") image.write({ offset, bytes: log.subarray(start, place) })
    else if (kind === "T") image.write({ offset })
    else if (kind === "B") image.syncBegins()
    else image.syncEnds()
  }
  return images
}

/**
 * Changes the journal's files as a power cut would. Returns the number of writes at risk. `before` has the files as
 * they were when the trace began.
 */
export const cutPower = (
  journal: string,
  trace: string,
  before: ReadonlyMap<string, Buffer>,
  random?: () => number,
): number => {
  let atRisk = 0
  const images = replay(trace, before)
  for (const path of [journal, `${journal}-wal`]) {
    const image = images.get(path)
    if (image === undefined) continue
    atRisk += image.unsynced
    writeFileSync(path, image.cut(random))
  }
  // Shared memory: it does not outlive the machine.
  rmSync(`${journal}-shm`, { force: true })
  return atRisk
}
