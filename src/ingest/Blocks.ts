/**
 * Memory for bodies that are arriving: blocks of one size, which are used again.
 * Buffers of each body's own would leave gaps of many sizes, and wait for the
 * collector.
 */

/** Bytes of a block. */
const blockSize = 16 * 1024

type Bytes = Uint8Array<ArrayBuffer>

/** Bytes of the blocks that hold `size` bytes. */
export const bytesFor = (size: number): number => Math.ceil(size / blockSize) * blockSize

export interface Blocks {
  /** Writes `chunk` after the first `size` bytes of `blocks`. */
  readonly append: (blocks: Array<Bytes>, size: number, chunk: Uint8Array) => void
  /** Copies `size` bytes out of `blocks`, and takes the blocks back. */
  readonly join: (blocks: ReadonlyArray<Bytes>, size: number) => Bytes
  /** Takes blocks back. */
  readonly give: (blocks: ReadonlyArray<Bytes>) => void
  /** Frees half of the blocks that are not in use. */
  readonly trim: () => void
}

export const make = (): Blocks => {
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
