import { expect } from "bun:test"
import { Duration, Effect } from "effect"
import * as Bodies from "../../src/ingest/Bodies.ts"
import { it } from "../lib/effect.ts"

const mebibyte = 1024 * 1024

it.effect("garbage is collected before a body is read when those before it have left 24 MiB", function* () {
  let collections = 0
  const { read, release } = yield* Bodies.make({
    gauge: { bytesInFlight: 0 },
    maxInFlight: 64 * mebibyte,
    deadline: Duration.seconds(30),
    firstByte: Duration.seconds(10),
    collect: () => {
      collections += 1
    },
  })
  const readBytes = (bytes: number, max: number) =>
    Effect.promise(async () => {
      const request = new Request("http://relay.example", { method: "POST", body: new Uint8Array(bytes) })
      const body = await read(request, undefined, max, false)
      if (typeof body !== "string") release(bytes)
      return body
    })
  // Each body that was cut off counts as 384 KiB, even a small one.
  for (let count = 0; count < 65; count += 1) expect(yield* readBytes(2, 1)).toBe("tooLarge")
  expect(collections).toBe(0)
  expect(yield* readBytes(2, 2)).toHaveLength(2)
  expect(collections).toBe(1)
  for (let count = 0; count < 24; count += 1) yield* readBytes(mebibyte, mebibyte)
  expect(collections).toBe(1)
  yield* readBytes(2, 2)
  expect(collections).toBe(2)
})
