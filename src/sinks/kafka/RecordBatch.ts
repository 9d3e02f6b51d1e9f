/**
 * Kafka's record batch (magic 2, https://kafka.apache.org/documentation/#recordbatch)
 * in one piece of memory.
 *
 * The client library makes some thirty buffers of a record with six headers, and
 * copies them twice: 4 µs an event and the garbage, against 1 µs here.
 */
import { crc32c, Writer } from "@platformatic/kafka"
import type { KafkaRecord } from "./KafkaClient.ts"

/** The producer's id: by it and the sequence the broker recognizes a batch that is sent again. */
export interface ProducerIdentity {
  readonly producerId: bigint
  readonly producerEpoch: number
}

export interface Compression {
  /** Its number among a batch's attributes. */
  readonly bitmask: number
  readonly compress: (records: Buffer) => Buffer | Promise<Buffer>
}

const lengthAt = 8
const crcAt = 17
const attributesAt = 21
/** The records begin there. */
const recordsAt = 61

/** A varint of Kafka is zigzag-encoded. */
const sizeOfVarint = (value: number): number => {
  let size = 1
  for (let rest = (value << 1) >>> 7; rest > 0; rest >>>= 7) size += 1
  return size
}

const widestVarint = 5
/** A UTF-16 unit takes this many bytes in UTF-8 at most. */
const widestUnit = 3
const smallest = 256 * 1024
/** Above it the memory is not kept for the next batches. */
const mostKept = 4 * 1024 * 1024

const room = ({ key, value, headers }: KafkaRecord): number => {
  let units = key.length
  for (const [name, text] of headers) units += name.length + text.length
  return value.length + widestUnit * units + widestVarint * (2 * headers.length + 6)
}

/** Writes batches into memory that it uses again. */
export class RecordBatches {
  #bytes = Buffer.allocUnsafeSlow(smallest)
  #at = 0

  /** The memory is free: batches that were written before are overwritten. */
  reset(): void {
    this.#at = 0
    if (this.#bytes.length > mostKept) this.#bytes = Buffer.allocUnsafeSlow(smallest)
  }

  /** The records of a partition, valid until the next `reset`. `now` is in epoch milliseconds. */
  write(records: ReadonlyArray<KafkaRecord>, identity: ProducerIdentity, sequence: number, now: number): Buffer {
    let needed = recordsAt
    for (const record of records) needed += room(record)
    if (this.#bytes.length - this.#at < needed) {
      this.#bytes = Buffer.allocUnsafeSlow(Math.max(needed, Math.min(2 * this.#bytes.length, mostKept)))
      this.#at = 0
    }
    const start = this.#at
    this.#at += recordsAt
    for (let index = 0; index < records.length; index++) this.#record(records[index] as KafkaRecord, index)
    const batch = this.#bytes.subarray(start, this.#at)
    const time = BigInt(now)
    // The broker gives the offset, and the epoch of the partition's leader.
    batch.writeBigInt64BE(0n, 0)
    batch.writeInt32BE(-1, 12)
    batch.writeInt8(2, 16)
    batch.writeInt32BE(records.length - 1, 23)
    batch.writeBigInt64BE(time, 27)
    batch.writeBigInt64BE(time, 35)
    batch.writeBigInt64BE(identity.producerId, 43)
    batch.writeInt16BE(identity.producerEpoch, 51)
    batch.writeInt32BE(sequence, 53)
    batch.writeInt32BE(records.length, 57)
    return seal(batch, 0)
  }

  #record({ key, value, headers }: KafkaRecord, index: number): void {
    const start = this.#at
    const guess = sizeOfVarint(value.length)
    this.#at += guess
    // Attributes, of which there are none, and the time, which is the batch's.
    this.#bytes[this.#at++] = 0
    this.#bytes[this.#at++] = 0
    this.#varint(index)
    if (key === "") this.#varint(-1)
    else this.#text(key)
    this.#varint(value.length)
    this.#bytes.set(value, this.#at)
    this.#at += value.length
    this.#varint(headers.length)
    for (const [name, text] of headers) {
      this.#text(name)
      this.#text(text)
    }
    this.#prefix(start, guess)
  }

  #text(text: string): void {
    const start = this.#at
    const guess = sizeOfVarint(text.length)
    this.#at += guess
    this.#at += this.#bytes.write(text, this.#at)
    this.#prefix(start, guess)
  }

  /** Puts the length of what was written in front of it; moves it where so many bytes were not left free. */
  #prefix(start: number, guess: number): void {
    const length = this.#at - start - guess
    const size = sizeOfVarint(length)
    if (size !== guess) this.#bytes.copyWithin(start + size, start + guess, this.#at)
    this.#at = start
    this.#varint(length)
    this.#at += length
  }

  #varint(value: number): void {
    let rest = ((value << 1) ^ (value >> 31)) >>> 0
    for (; rest > 0x7f; rest >>>= 7) this.#bytes[this.#at++] = (rest & 0x7f) | 0x80
    this.#bytes[this.#at++] = rest
  }
}

/** Sets what depends on a batch's bytes. */
const seal = (batch: Buffer, attributes: number): Buffer => {
  batch.writeInt32BE(batch.length - lengthAt - 4, lengthAt)
  batch.writeInt16BE(attributes, attributesAt)
  // The library copies a plain buffer first.
  const sealed = Writer.create().append(batch.subarray(attributesAt))
  batch.writeUInt32BE(crc32c(sealed.dynamicBuffer), crcAt)
  return batch
}

/** The batch with its records compressed. */
export const compressed = async (batch: Buffer, { bitmask, compress }: Compression): Promise<Buffer> => {
  // A copy: the memory of the batch is another's as soon as this waits.
  const own = Buffer.from(batch)
  const records = await compress(own.subarray(recordsAt))
  return seal(Buffer.concat([own.subarray(0, recordsAt), records]), bitmask)
}
