import { describe, expect, test } from "bun:test"
import { buffer } from "../../src/runtime/Stderr.ts"

/** A stream that accepts everything, accepts nothing, or fails. */
const stream = () => {
  const state = { takes: "all" as "all" | "none" | "fails", text: "" }
  const lines = buffer(
    async (bytes) => {
      await Promise.resolve()
      if (state.takes === "fails") throw new Error("ENOSPC")
      if (state.takes === "none") return 0
      state.text += Buffer.from(bytes).toString()
      return bytes.length
    },
    (dropped) => `${dropped} are missing`,
  )
  return { state, ...lines }
}

const long = "x".repeat(1_000)

describe("lines on standard error", () => {
  test("are written in order, without a notice if none is missing", async () => {
    const { state, line, drained, dropped } = stream()
    for (const text of ["a", "b", "c"]) line(text)
    await drained()
    expect([state.text, dropped()]).toEqual(["a\nb\nc\n", 0])
  })

  test("are dropped once the buffer is full, and a later line counts them", async () => {
    const { state, line, drained, dropped } = stream()
    state.takes = "none"
    for (let index = 0; index < 1_000; index++) line(`${index} ${long}`)
    const missing = dropped()
    expect(missing).toBeWithin(600, 900)
    state.takes = "all"
    await drained()
    line("afterwards")
    await drained()
    const lines = state.text.trimEnd().split("\n")
    expect(lines.slice(0, -2).map((text) => Number.parseInt(text, 10))).toEqual(
      Array.from({ length: 1_000 - missing }, (_, index) => index),
    )
    expect(lines.slice(-2)).toEqual([`${missing} are missing`, "afterwards"])
    expect(dropped()).toBe(missing)
  })

  test("are counted if they can't be written, and the first written line says so", async () => {
    const { state, line, drained, dropped } = stream()
    state.takes = "fails"
    for (const text of ["a", "b", "c"]) {
      line(text)
      await drained()
    }
    expect(dropped()).toBe(3)
    state.takes = "all"
    line("d")
    await drained()
    expect([state.text, dropped()]).toEqual(["3 are missing\nd\n", 3])
  })
})
