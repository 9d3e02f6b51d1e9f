/** What a sink makes of an event. An event of which it can't be made is rejected, and only that one. */
import { Result } from "effect"
import * as Rendering from "../formats/Rendering.ts"
import { DeliveryRejected, SinkError } from "./Sink.ts"

export const rendered = <A>(make: () => A): Result.Result<A, SinkError> =>
  Result.mapError(
    Rendering.attempt(make),
    ({ message }) => new SinkError({ reason: new DeliveryRejected({ message }) }),
  )
