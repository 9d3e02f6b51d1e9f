/**
 * The answers of receivers to failed attempts, as the admin API shows it: an
 * answer may repeat what was sent, so it is shown where a payload is.
 */
import { mask } from "../event/Quoted.ts"
import type { Attempt } from "../journal/Journal.ts"

type Attempts = ReadonlyArray<Attempt>

/** For lists. */
export const without = (attempts: Attempts): Attempts => attempts.map(({ answer: _, ...attempt }) => attempt)

/** For one event whose personal data is masked. */
export const masked = (attempts: Attempts): Attempts =>
  attempts.map((attempt) => (attempt.answer === undefined ? attempt : { ...attempt, answer: mask }))
