/** Renders an event for a sink; one that can't be rendered is rejected by itself. */
import { Result } from "effect"
import * as Rendering from "../formats/Rendering.ts"
import { rejected, type SinkError } from "./Sink.ts"

export const rendered = <A>(make: () => A): Result.Result<A, SinkError> =>
  Result.mapError(Rendering.attempt(make), ({ message }) => rejected(message))
