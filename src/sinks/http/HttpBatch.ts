/**
 * Several events in one request: an array of CloudEvents or of the signed bodies,
 * or a body a line.
 *
 * **Guarantee.** A batch that the receiver refuses costs only the events that it
 * refuses alone: the others of it are sent again in halves, in their order. Each
 * half is another request with a key of its own.
 */
import { Array as Arr, Effect } from "effect"
import type { Entry } from "../../event/Entry.ts"
import { traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as Raw from "../../formats/Raw.ts"
import type { Entries } from "../Rendered.ts"
import { type Failures, isFinal, passed, type Sink, type SinkError } from "../Sink.ts"
import type { HttpConfig } from "./HttpConfig.ts"

interface BatchBody {
  readonly type: string
  readonly body: (entries: Entries) => Buffer
}

const lineFeed = Buffer.from("\n")

const cloudEvent = (entry: Entry): string =>
  CloudEvents.structured(entry, Object.fromEntries(traceHeaders(entry.event)))

const array = (values: ReadonlyArray<string>): Buffer => Buffer.from(`[${values.join(",")}]`)

/** The body of a batch in the config's format. */
export const bodyOf = ({ format }: Pick<HttpConfig, "format">): BatchBody => {
  switch (format) {
    case "json":
      return { type: "application/json", body: (entries) => array(entries.map(({ event }) => Raw.object(event))) }
    case "ndjson":
      return {
        type: "application/x-ndjson",
        body: (entries) => Buffer.concat(entries.flatMap(({ event }) => [Raw.line(event), lineFeed])),
      }
    default:
      return { type: CloudEvents.batchedType, body: (entries) => array(entries.map(cloudEvent)) }
  }
}

/** Sends a batch, and in halves what the receiver refuses as a whole. */
export const inHalves = (send: (entries: Entries) => Effect.Effect<Failures, SinkError>): Sink["send"] => {
  const part = (entries: Entries): Effect.Effect<Failures, SinkError> =>
    Effect.catchIf(
      send(entries),
      (error) => isFinal(error) && entries.length > 1,
      () => halves(entries),
    )
  const halves = Effect.fnUntraced(function* (entries: Entries) {
    const middle = Math.ceil(entries.length / 2)
    const failures = new Map<number, SinkError>()
    let from = 0
    for (const half of [entries.slice(0, middle), entries.slice(middle)]) {
      if (!Arr.isReadonlyArrayNonEmpty(half)) continue
      const start = from
      from += half.length
      const failed = yield* Effect.match(part(half), {
        onSuccess: (failed) => failed,
        onFailure: (error): Failures => new Map(half.map((_, index) => [index, error])),
      })
      for (const [index, error] of failed) failures.set(start + index, error)
      // The receiver is away, or asks to wait: what follows would only meet the same.
      const away = [...failed.values()].find((error) => !isFinal(error))
      if (away === undefined) continue
      for (let index = from; index < entries.length; index++) failures.set(index, away)
      break
    }
    return failures
  })
  return (entries) => (Arr.isReadonlyArrayNonEmpty(entries) ? part(entries) : passed)
}
