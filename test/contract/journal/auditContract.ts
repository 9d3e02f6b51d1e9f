/** The audit log: what operators changed. */
import { describe, expect } from "bun:test"
import { Effect } from "effect"
import { kept, type Operation } from "../../../src/journal/AuditLog.ts"
import { it } from "../../lib/effect.ts"
import { type Create, sessionsOf, testWith } from "./sessions.ts"

const at = Date.UTC(2026, 10, 20)

export const operation = (of: Partial<Operation> = {}): Operation => ({
  at,
  who: "ada",
  by: "the page",
  what: "lanes pause",
  on: "lake",
  result: "done",
  note: "",
  ...of,
})

export const auditContract = (name: string, create: Create): void => {
  const test = testWith(create)

  describe(`${name}: the audit log`, () => {
    const all = [
      operation({ on: "first", at: at - 2 }),
      operation({ on: "second", at: at - 1, result: "refused", note: 'a reason; "quoted"\u0007' }),
      operation({ on: "third", result: "failed", what: "dlq drop", who: "user root", by: "the command line" }),
    ]

    it.live("has a record as it was stored, also when the journal is opened again", () => {
      const session = sessionsOf(create())
      return Effect.gen(function* () {
        yield* session(({ audit }) => Effect.forEach(all, audit.record, { discard: true }))
        const records = yield* session(({ audit }) => audit.list({ limit: 9 }))
        expect(records.map(({ id: _, relay: __, ...record }) => record)).toEqual(all.toReversed())
        expect(records.every(({ id, relay }) => id > 0 && typeof relay === "string")).toBe(true)
      })
    })

    test("is read newest first, a page at a time, from a time on", function* ({ audit }) {
      yield* Effect.forEach(all, audit.record, { discard: true })
      const names = (query: Partial<Parameters<typeof audit.list>[0]>) =>
        Effect.map(audit.list({ limit: 9, ...query }), (records) => records.map(({ on }) => on))
      const [newest] = yield* audit.list({ limit: 1 })
      expect(newest?.on).toBe("third")
      expect(yield* names({ before: newest?.id ?? 0 })).toEqual(["second", "first"])
      expect(yield* names({ before: newest?.id ?? 0, limit: 1 })).toEqual(["second"])
      expect(yield* names({ since: at - 1 })).toEqual(["third", "second"])
      expect(yield* names({ since: at - 1.5 })).toEqual(["third", "second"])
      expect(yield* names({ since: at + 1 })).toEqual([])
    })

    test("drops records that are too old when it gets another record", function* ({ audit }) {
      yield* audit.record(operation({ on: "old", at: at - kept.age - 1 }))
      yield* audit.record(operation({ on: "at the limit", at: at - kept.age }))
      yield* audit.record(operation({ on: "new" }))
      expect((yield* audit.list({ limit: 9 })).map(({ on }) => on)).toEqual(["new", "at the limit"])
    })
  })
}
