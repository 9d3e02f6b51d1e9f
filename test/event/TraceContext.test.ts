import { describe, expect, test } from "bun:test"
import { contextOf, spanOf, stateOf, traceHeaders } from "../../src/event/TraceContext.ts"
import { event } from "../journal/samples.ts"
import { seeded } from "../lib/seeded.ts"
import { tries } from "../lib/tries.ts"

const trace = "0af7651916cd43dd8448eb211c80319c"
const span = "b7ad6b7169203331"

describe("a traceparent", () => {
  test("names a trace, a span and whether it is sampled", () => {
    expect(spanOf(`00-${trace}-${span}-01`)).toEqual({ traceId: trace, spanId: span, sampled: true })
    expect(spanOf(`00-${trace}-${span}-00`)?.sampled).toBe(false)
    // Other flags say nothing of sampling.
    expect(spanOf(`00-${trace}-${span}-02`)?.sampled).toBe(false)
    expect(spanOf(`00-${trace}-${span}-10`)?.sampled).toBe(false)
    expect(spanOf(`00-${trace}-${span}-03`)?.sampled).toBe(true)
  })

  test("of a future version is read as far as this version goes", () => {
    expect(spanOf(`cc-${trace}-${span}-01-what-comes-then`)?.traceId).toBe(trace)
    expect(spanOf(`00-${trace}-${span}-01-more`)).toBeUndefined()
    expect(spanOf(`ff-${trace}-${span}-01`)).toBeUndefined()
  })

  test("in any other form is ignored", () => {
    for (const wrong of [
      "",
      "00",
      `00-${"0".repeat(32)}-${span}-01`,
      `00-${trace}-${"0".repeat(16)}-01`,
      `00-${trace.toUpperCase()}-${span}-01`,
      `00-${trace}-${span}-1`,
      `00-${trace}-${span}`,
      ` 00-${trace}-${span}-01`,
      `00-${trace}-${span}-01, 00-${trace}-${span}-01`,
    ]) {
      expect(spanOf(wrong)).toBeUndefined()
    }
  })

  test(`is written as it was read (${tries(300)} seeds)`, () => {
    for (let seed = 1; seed <= tries(300); seed++) {
      const random = seeded(seed)
      const hex = (length: number) =>
        Array.from({ length }, () => "123456789abcdef"[Math.floor(random() * 15)]).join("")
      const one = { traceId: hex(32), spanId: hex(16), sampled: random() < 0.5 }
      expect(spanOf(contextOf(one).traceparent)).toEqual(one)
    }
  })
})

test("a tracestate that a header can't hold, or that is endless, is left out", () => {
  const longest = `a=${"x".repeat(510)}`
  for (const right of ["vendor=1,other=2", longest]) expect(stateOf(right)).toBe(right)
  for (const wrong of [null, "", "a=\n", "a=é", `${longest}x`]) expect(stateOf(wrong)).toBeUndefined()
})

test("an event without a trace is sent without trace headers", () => {
  expect(traceHeaders(event("evt_1"))).toEqual([])
  const context = { traceparent: `00-${trace}-${span}-01` }
  expect(traceHeaders(event("evt_1", { trace: context }))).toEqual([["traceparent", context.traceparent]])
  expect(traceHeaders(event("evt_1", { trace: { ...context, tracestate: "a=1" } }))).toHaveLength(2)
})
