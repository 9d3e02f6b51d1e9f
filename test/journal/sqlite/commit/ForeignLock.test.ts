/** Another process locks the journal's file. Commits wait for it, and nothing waits for the commits. */
import { describe, expect, test } from "bun:test"
import { DatabaseSync } from "node:sqlite"
import { Effect, Exit, Fiber } from "effect"
import type { AppendExit } from "../../../../src/journal/Journal.ts"
import { it } from "../../../lib/effect.ts"
import { event, settlement } from "../../samples.ts"
import { options } from "../../temporary.ts"
import { closeEngine, openEngine } from "../engine.ts"
import { session } from "../session.ts"

const lock = (path: string) => {
  const other = new DatabaseSync(path)
  other.exec("BEGIN IMMEDIATE")
  return () => {
    if (other.isOpen) other.close()
  }
}

const words = (exit: AppendExit) => JSON.stringify(exit)

describe("a commit that a foreign lock stops", () => {
  test("succeeds when the lock is released, with the events and settlements that arrived meanwhile", async () => {
    const { at, engine } = openEngine()
    const release = lock(at.path)
    const first = engine.appendUnsafe(event("a"), ["lake"])
    engine.flush()
    const second = engine.appendUnsafe(event("b"), ["lake"])
    engine.flush()
    const settled = new Promise((resolve) => engine.settle([settlement("lake", 0)], resolve))
    expect(engine.head).toBe(0)
    release()
    expect([await first, await second]).toEqual([Exit.succeed("appended"), Exit.succeed("appended")])
    await settled
    expect(engine.read(0, 9).map(({ event }) => event.id)).toEqual(["a", "b"])
    closeEngine(engine)
  })

  test("refuses more than a batch meanwhile, and names the process that holds the file", async () => {
    const { at, engine } = openEngine()
    const release = lock(at.path)
    const large = (index: number) => event(`evt_${index}`, { body: new Uint8Array(200_000).fill(index) })
    const waiting: Array<Promise<AppendExit>> = []
    let refused: AppendExit | undefined
    for (let index = 0; refused === undefined; index++) {
      const offered = engine.appendUnsafe(large(index), ["lake"])
      if (offered instanceof Promise) waiting.push(offered)
      else refused = offered
    }
    expect(words(refused)).toContain(`The journal ${at.path} is locked: `)
    release()
    const exits = await Promise.all(waiting)
    expect(exits.every(Exit.isSuccess)).toBe(true)
    expect(engine.head).toBe(waiting.length)
    closeEngine(engine)
  })

  test("fails finally if the lock is not released", async () => {
    const { at, engine } = openEngine()
    const release = lock(at.path)
    const appended = engine.appendUnsafe(event("a"), ["lake"])
    engine.flush()
    engine.stop()
    expect(words(await appended)).toContain("is locked")
    release()
    engine.store.close()
  })
})

it.live("an operator's change waits for a foreign lock, and is made after it", function* () {
  const at = options()
  yield* session(at, function* (journal) {
    yield* journal.openLane("lake")
    const release = lock(at.path)
    const paused = yield* Effect.forkChild(journal.setPaused("lake", true), { startImmediately: true })
    expect((yield* journal.lanes)[0]).toMatchObject({ name: "lake", paused: false })
    release()
    yield* Fiber.join(paused)
    expect((yield* journal.lanes)[0]).toMatchObject({ name: "lake", paused: true })
  })
})
