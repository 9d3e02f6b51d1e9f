/**
 * Removes or masks receivers' answers to failed attempts. An answer may repeat the
 * payload, so it is shown only together with payloads.
 */
import { mask } from "../event/Quoted.ts"
import type { Attempt } from "../journal/Journal.ts"

type Attempts = ReadonlyArray<Attempt>

/** Removes the answers, for lists. */
export const without = (attempts: Attempts): Attempts => attempts.map(({ answer: _, ...attempt }) => attempt)

/** Masks the answers, for one event whose personal data is masked. */
export const masked = (attempts: Attempts): Attempts =>
  attempts.map((attempt) => (attempt.answer === undefined ? attempt : { ...attempt, answer: mask }))
