/** Answers of HTTP services that ask for a wait, and the wait in milliseconds that they mean. */
export const throttlings = [
  [429, { "retry-after": "7" }, 7_000],
  [429, {}, 5_000],
  [503, { "retry-after": "30" }, 30_000],
] as const
