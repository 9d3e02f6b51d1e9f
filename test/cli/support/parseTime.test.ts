import { describe, expect, test } from "bun:test"
import { Result } from "effect"
import { parseTime } from "../../../src/cli/support/values.ts"

const now = Date.UTC(2026, 10, 21, 12)
const at = (text: string) => Result.getOrUndefined(parseTime(text, now))

describe("times on the command line", () => {
  test("are ISO 8601, in UTC unless a zone is given", () => {
    expect(at("2026-11-20")).toBe(Date.UTC(2026, 10, 20))
    expect(at("2026-11-20T08:00")).toBe(Date.UTC(2026, 10, 20, 8))
    expect(at("2026-11-20 08:00:30")).toBe(Date.UTC(2026, 10, 20, 8, 0, 30))
    expect(at("2026-11-20T08:00:00+02:00")).toBe(Date.UTC(2026, 10, 20, 6))
  })

  test("are a span ago", () => {
    expect(at("2 hours")).toBe(now - 7_200_000)
    expect(at("1 day")).toBe(now - 86_400_000)
    expect(at("90seconds")).toBe(now - 90_000)
    expect(at("2h")).toBe(now - 7_200_000)
    expect(at("1.5 d")).toBe(now - 129_600_000)
  })

  test("are the beginning of today or yesterday, in UTC", () => {
    expect(at("today")).toBe(Date.UTC(2026, 10, 21))
    expect(at("yesterday")).toBe(Date.UTC(2026, 10, 20))
  })

  test("are refused when they are neither", () => {
    for (const text of ["", "tomorrow", "2026-13-40", "5", "-2 hours", "2026", "2 hours ago"]) {
      expect(Result.isFailure(parseTime(text, now))).toBe(true)
    }
  })
})
