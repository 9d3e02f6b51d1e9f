import { expect } from "bun:test"
import { Effect } from "effect"
import type { Connection } from "../../../../src/journal/postgres/connection/Connection.ts"
import * as ConnectionPool from "../../../../src/journal/postgres/connection/PooledDatabase.ts"
import { it } from "../../../lib/effect.ts"

/** A connection without a server. */
class Line {
  isOpen = true
  #onClosed = () => {}
  readonly #isShort: boolean

  /** A short connection closes as soon as a listener is set, so before the pool has the connection. */
  constructor(length?: "short") {
    this.#isShort = length === "short"
  }

  set onClosed(listener: () => void) {
    this.#onClosed = listener
    if (this.#isShort) this.close()
  }

  close(): void {
    this.isOpen = false
    this.#onClosed()
  }
}

const poolOf = (lines: ReadonlyArray<Line>) => {
  const left = [...lines]
  return ConnectionPool.makePool(async () => left.shift() as unknown as Connection, 1)
}

const isOpen = (connection: Connection) => Effect.succeed(connection.isOpen)

it.effect("a connection that closed before the pool had it is never lent", function* () {
  const pool = yield* poolOf([new Line("short"), new Line("short"), new Line()])
  expect(yield* pool.use(1_000, isOpen)).toBe(true)
  expect(yield* pool.use(1_000, isOpen)).toBe(true)
})

it.effect("a connection that closes between two callers is replaced", function* () {
  const first = new Line()
  const pool = yield* poolOf([first, new Line()])
  yield* pool.use(1_000, isOpen)
  first.close()
  expect(yield* pool.use(1_000, isOpen)).toBe(true)
})
