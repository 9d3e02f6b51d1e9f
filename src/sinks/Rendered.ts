/** Renders events for a sink. An event that can't be rendered is rejected by itself. */
import { Array as Arr, Effect, Result } from "effect"
import type { Entry } from "../event/Event.ts"
import * as Rendering from "../formats/Rendering.ts"
import { type Failures, passed, rejected, type Sink, type SinkError } from "./Sink.ts"

/** The result of `make`. An error that a template throws is a rejection. */
export const rendered = <A>(make: () => A): Result.Result<A, SinkError> =>
  Result.mapError(Rendering.attempt(make), ({ message }) => rejected(message))

/** The message of an event, and the event's index in the lane's batch. */
export interface Placed<Message> {
  readonly index: number
  readonly message: Message
}

/**
 * Renders each event of a batch as a message of its own. An event that can't be
 * rendered, or whose message is `unfit`, is left out and added to `failures`.
 */
export const renderEach = <Message>(
  batch: ReadonlyArray<Entry>,
  encode: (entry: Entry, index: number) => Message,
  failures: Map<number, SinkError>,
  unfit: (message: Message) => SinkError | undefined = () => undefined,
): ReadonlyArray<Placed<Message>> => {
  const placed: Array<Placed<Message>> = []
  batch.forEach((entry, index) => {
    const made = rendered(() => encode(entry, index))
    const failure = Result.isFailure(made) ? made.failure : unfit(made.success)
    if (failure !== undefined) failures.set(index, failure)
    else if (Result.isSuccess(made)) placed.push({ index, message: made.success })
  })
  return placed
}

/** The events of one message, oldest first. */
export type Entries = Arr.NonEmptyReadonlyArray<Entry>

/**
 * Sends a batch as one message. From a digest that can't be rendered as a whole,
 * the events that can't are left out and rejected.
 */
export const asOneMessage = <Message>(
  compose: (entries: Entries) => Message,
  deliver: (message: Message) => Effect.Effect<Failures, SinkError>,
): Sink["send"] => {
  const sendRest = (entries: Entries): Effect.Effect<Failures, SinkError> => {
    const failures = new Map<number, SinkError>()
    const rest = entries.filter((entry, index) => {
      const made = rendered(() => compose([entry]))
      if (Result.isFailure(made)) failures.set(index, made.failure)
      return Result.isSuccess(made)
    })
    return Arr.isReadonlyArrayNonEmpty(rest) ? Effect.as(deliver(compose(rest)), failures) : Effect.succeed(failures)
  }
  return (entries) => {
    if (!Arr.isReadonlyArrayNonEmpty(entries)) return passed
    const made = rendered(() => compose(entries))
    if (Result.isSuccess(made)) return deliver(made.success)
    return entries.length === 1 ? Effect.fail(made.failure) : sendRest(entries)
  }
}
