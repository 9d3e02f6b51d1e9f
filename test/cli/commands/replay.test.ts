import { describe, expect } from "bun:test"
import { Effect } from "effect"
import { event } from "../../journal/samples.ts"
import { it } from "../../lib/effect.ts"
import { temporary } from "../harness.ts"
import { runningIn } from "../running.ts"

const directory = temporary()
const running = runningIn(directory)

describe("replay", () => {
  it.live("replay sends what the journal holds, between two times", () =>
    Effect.gen(function* () {
      const { ask, journal } = yield* running()
      yield* journal.openLane("lake")
      yield* journal.append(event("evt_1", { receivedAt: Date.UTC(2026, 0, 2) }), ["lake"])
      const between = (since: string, until: string) =>
        ask("replay", "--sink", "lake", "--since", since, "--until", until, "--type", "appointment.*")
      expect((yield* between("2026-01-02", "2026-01-03")).stdout).toBe("1 event queued for lake again\n")
      expect((yield* between("2026-01-03", "2026-01-04")).stdout).toBe("0 events queued for lake again\n")
      expect((yield* between("2026-01-03", "2026-01-02")).code).toBe(64)
      expect((yield* ask("replay", "--sink", "nope", "--since", "1 day")).code).toBe(1)
      expect((yield* ask("journal", "acknowledge")).code).toBe(0)
    }).pipe(Effect.orDie),
  )
})
