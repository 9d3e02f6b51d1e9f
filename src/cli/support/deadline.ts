/** How long a check may take: what does not answer in time is reported as not answering. */
import { Duration, Effect } from "effect"

const usual = Duration.seconds(10)

/** Interrupts the check after ten seconds, or another time, whose text `onTimeout` is given. */
export const withDeadline =
  <B, E2, R2>(onTimeout: (time: string) => Effect.Effect<B, E2, R2>, duration = usual) =>
  <A, E, R>(check: Effect.Effect<A, E, R>): Effect.Effect<A | B, E | E2, R | R2> =>
    Effect.timeoutOrElse(check, { duration, orElse: () => onTimeout(Duration.format(duration)) })
