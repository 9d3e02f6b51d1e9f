/**
 * The message about a fault names its cause. People read `causes.md`, and this test keeps it equal to the real
 * messages.
 */
import { beforeAll, expect, test } from "bun:test"
import { suiteUnless } from "../../lib/lacking.ts"
import { block, parts, shown, type Told, tell } from "./table.ts"

for (const part of parts) {
  suiteUnless(part.lacking(), `the causes of failures: ${part.title}`, () => {
    let told: ReadonlyArray<Told>
    beforeAll(async () => {
      told = await tell(part)
    }, 300_000)

    test("are in causes.md; if one is better now, update the page: RELAY_PARTS=1 bun test/sinks/causes/table.ts", () => {
      expect(block(part.title, told)).toBe(shown().get(part.title) ?? "")
    })

    test("have a remedy, and the lane waits if none is needed", () => {
      const waits = ["SinkUnavailable", "SinkThrottled", "DeliveryFailed"]
      const wrong = told.filter(({ cause: { todo }, reason }) =>
        todo === "" ? !waits.includes(reason?._tag ?? "") : !reason?.message.includes(todo),
      )
      expect(wrong.map(({ cause, reason }) => [cause.name, reason?.message])).toEqual([])
    })
  })
}
