/** Tests that run on a journal in memory, under the test clock. */
import { Effect, type Scope } from "effect"
import type { Archive } from "../../src/journal/Archive.ts"
import type { Journal } from "../../src/journal/Journal.ts"
import { effectOf, it, type Steps } from "../lib/effect.ts"
import * as MemoryJournal from "./MemoryJournal.ts"

export const inMemory = (name: string, body: () => Steps<void, unknown, Archive | Journal | Scope.Scope>): void =>
  it.effect(name, () => Effect.provide(effectOf(body), MemoryJournal.layer))
