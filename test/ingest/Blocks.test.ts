import { expect, test } from "bun:test"
import { bytesFor, makeBlocks } from "../../src/ingest/Bodies.ts"

const blockSize = bytesFor(1)
const bytes = (length: number) => Uint8Array.from({ length }, (_, at) => (at * 31) % 251)

test("chunks of any size are joined as they came, from blocks that were used before, too", () => {
  const pool = makeBlocks()
  for (const sizes of [[], [0], [1], [blockSize], [blockSize - 1, 2], [3 * blockSize + 5, blockSize - 5, 0, 1]]) {
    const whole = bytes(sizes.reduce((sum, size) => sum + size, 0))
    const blocks: Array<Uint8Array<ArrayBuffer>> = []
    let size = 0
    for (const length of sizes) {
      pool.append(blocks, size, whole.subarray(size, size + length))
      size += length
    }
    expect(blocks.length * blockSize).toBe(bytesFor(size))
    expect(pool.join(blocks, size)).toEqual(whole)
  }
})

test("blocks that are not in use are freed by and by", () => {
  const pool = makeBlocks()
  const blocks: Array<Uint8Array<ArrayBuffer>> = []
  pool.append(blocks, 0, bytes(4 * blockSize))
  pool.give(blocks)
  const left = () => blocks.filter((block) => block.byteLength > 0).length
  for (const expected of [2, 1, 0, 0]) {
    pool.trim()
    expect(left()).toBe(expected)
  }
})
