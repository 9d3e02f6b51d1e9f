import { describe, expect } from "bun:test"
import { Effect, FileSystem, Latch, Logger, Option, PlatformError } from "effect"
import { TestClock } from "effect/testing"
import { watch } from "../../src/reload/Reload.ts"
import { it } from "../lib/effect.ts"

type Info = FileSystem.File.Info

/** Watches a file that was loaded as `text`. Its text is `state.text`, or `undefined` if the file is missing. */
const watching = Effect.fnUntraced(function* (text: string | undefined) {
  const state = { text, asked: 0, links: 1n, warned: [] as string[] }
  const asked = Latch.makeUnsafe(false)
  const gone = PlatformError.systemError({ _tag: "NotFound", module: "FileSystem", method: "readFile" })
  const files = FileSystem.makeNoop({
    stat: () =>
      Effect.suspend(() =>
        state.text === undefined
          ? Effect.fail(gone)
          : Effect.succeed({ type: "File", nlink: Option.some(state.links) } as unknown as Info),
      ),
    readFile: () => Effect.sync(() => new TextEncoder().encode(state.text)),
  })
  yield* Effect.forkScoped(
    Effect.forever(
      Effect.andThen(asked.await, () => {
        state.asked += 1
        return asked.close
      }),
    ),
  )
  const loaded = new Map([["relay.config.json", text ?? ""]])
  const logger = Logger.make<unknown, void>(({ message }) => void state.warned.push(String(message)))
  yield* watch(loaded, asked).pipe(
    Effect.provide(Logger.layer([logger])),
    Effect.provideService(FileSystem.FileSystem, files),
    Effect.forkScoped({ startImmediately: true }),
  )
  const after = Effect.fnUntraced(function* (text: string | undefined) {
    state.text = text
    yield* TestClock.adjust("500 millis")
    return state.asked
  })
  return { after, loaded, state }
})

describe("a watched config", () => {
  it.effect("is reloaded once when it changes, and not while it is being written", function* () {
    const { after } = yield* watching("one")
    expect([yield* after("one"), yield* after("one")]).toEqual([0, 0])
    expect([yield* after("tw"), yield* after("two"), yield* after("two"), yield* after("two")]).toEqual([0, 0, 1, 1])
  })

  it.effect("may be missing for a moment, as when another file takes its name", function* () {
    const { after } = yield* watching("one")
    expect([yield* after(undefined), yield* after(undefined), yield* after("")]).toEqual([0, 0, 0])
    expect([yield* after("one"), yield* after("one")]).toEqual([0, 0])
    expect([yield* after(undefined), yield* after("two"), yield* after("two")]).toEqual([0, 0, 1])
  })

  it.effect("is reloaded when it returns to its former content", function* () {
    const { after } = yield* watching("one")
    expect([yield* after("wrong"), yield* after("wrong")]).toEqual([0, 1])
    expect([yield* after("one"), yield* after("one")]).toEqual([1, 2])
  })

  it.effect("is not looked at when the config names it no more, and another is from then on", function* () {
    const { after, loaded } = yield* watching("one")
    loaded.clear()
    expect([yield* after("two"), yield* after("two")]).toEqual([0, 0])
    loaded.set("certificate.pem", "two")
    expect([yield* after("two"), yield* after("three"), yield* after("three")]).toEqual([0, 0, 1])
  })

  it.effect("is loaded once more when it has been absent or empty for five seconds, and when it is back", function* () {
    for (const absent of [undefined, ""]) {
      const { after } = yield* watching("one")
      for (let seen = 1; seen < 10; seen++) expect(yield* after(absent)).toBe(0)
      expect([yield* after(absent), yield* after(absent)]).toEqual([1, 1])
      expect([yield* after("one"), yield* after("one")]).toEqual([1, 2])
    }
  })

  it.effect("is warned of once when it was replaced outside the container", function* () {
    const { after, state } = yield* watching("one")
    yield* after("one")
    expect(state.warned).toEqual([])
    state.links = 0n
    expect([yield* after("one"), yield* after("one")]).toEqual([0, 0])
    expect(state.warned).toEqual([
      "relay.config.json was replaced outside the container, and its new content can't be read inside: mount the directory, or restart the container",
    ])
  })

  it.effect("may be created after the relay has started with its defaults", function* () {
    const { after } = yield* watching(undefined)
    expect([yield* after("one"), yield* after("one")]).toEqual([0, 1])
  })
})
