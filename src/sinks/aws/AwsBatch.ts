/**
 * How a lane's batch is sent in requests of ten, each message with an outcome
 * of its own.
 *
 * **Guarantee.** A request holds at most one message of a group, and nothing
 * overtakes a failed one of its group: with FIFO, events of one key stay in order.
 */
import { Duration, Effect } from "effect"
import type { Entry } from "../../event/Entry.ts"
import { renderEach } from "../Rendered.ts"
import { type Failures, isFinal, type SinkError } from "../Sink.ts"
import * as AwsErrors from "./AwsErrors.ts"

/** The most messages in a request. */
export const most = 10

/** The limits of a lane's batch, which is one request: `largest` is in bytes. */
export const limits = (largest: number, { linger }: { readonly linger: Duration.Duration }) => ({
  maxEvents: most,
  maxBytes: largest,
  linger: Duration.toMillis(linger),
})

/** This part of a message decides which request it goes with. */
export interface Sized {
  /** The event's index in the lane's batch. */
  readonly index: number
  /** Bytes, as the service counts them. */
  readonly size: number
  /** It is set if the service keeps order by groups. */
  readonly fifo?: { readonly group: string }
}

/**
 * The messages of the next request: as many as fit, in order, and only one of
 * each group. A request may succeed in part, and nothing may overtake a failed
 * message of its group.
 */
export const next = <Message extends Sized>(
  waiting: ReadonlyArray<Message>,
  largest: number,
  atMost = most,
): ReadonlyArray<Message> => {
  const request: Array<Message> = []
  const groups = new Set<string>()
  let bytes = 0
  for (const message of waiting) {
    if (request.length === atMost) break
    if (message.fifo !== undefined) {
      if (groups.has(message.fifo.group)) continue
      groups.add(message.fifo.group)
    }
    if (request.length > 0 && bytes + message.size > largest) break
    request.push(message)
    bytes += message.size
  }
  return request
}

/** Why a message must wait: an earlier one of its group failed and is retried. */
const ahead = (
  { fifo }: Sized,
  request: ReadonlyArray<Sized>,
  failed: ReadonlyMap<number, SinkError>,
): SinkError | undefined => {
  if (fifo === undefined || failed.size === 0) return undefined
  const first = request.find((message) => message.fifo?.group === fifo.group)
  const error = first && failed.get(first.index)
  return error !== undefined && !isFinal(error) ? error : undefined
}

export interface Sending<Message extends Sized> {
  readonly place: AwsErrors.Place
  /** The largest message, and the largest request, in bytes. */
  readonly largest: number
  readonly encode: (entry: Entry, index: number) => Message
  /** Sends one request; the failures by index in the lane's batch. */
  readonly publish: (request: ReadonlyArray<Message>) => Effect.Effect<Failures, SinkError>
}

export const send = Effect.fnUntraced(function* <Message extends Sized>(
  batch: ReadonlyArray<Entry>,
  { place, largest, encode, publish }: Sending<Message>,
) {
  const failures = new Map<number, SinkError>()
  const unfit = ({ size }: Message) => (size > largest ? AwsErrors.tooLarge(place, size, largest) : undefined)
  let waiting = renderEach(batch, encode, failures, unfit).map(({ message }) => message)
  let atMost = most
  while (waiting.length > 0) {
    const request = next(waiting, largest, atMost)
    const answer = yield* Effect.result(publish(request))
    if (answer._tag === "Failure" && isFinal(answer.failure) && request.length > 1) {
      // One message may be the cause: from here on each is sent alone.
      atMost = 1
      continue
    }
    const failed =
      answer._tag === "Success" ? answer.success : new Map(request.map(({ index }) => [index, answer.failure]))
    for (const [index, error] of failed) failures.set(index, error)
    const stop = answer._tag === "Failure" && !isFinal(answer.failure) ? answer.failure : undefined
    waiting = waiting.filter((message) => {
      if (request.includes(message)) return false
      const error = stop ?? ahead(message, request, failed)
      if (error !== undefined) failures.set(message.index, error)
      return error === undefined
    })
  }
  return failures
})

/** The answer to a batch of SNS or SQS. */
interface Answer {
  readonly Successful?: ReadonlyArray<{ readonly Id?: string | undefined }> | undefined
  readonly Failed?:
    | ReadonlyArray<{
        readonly Id?: string | undefined
        readonly Code?: string | undefined
        readonly Message?: string | undefined
        readonly SenderFault?: boolean | undefined
      }>
    | undefined
}

/** The failures of a request whose entries have the index as their id; an entry that the answer does not name has failed. */
export const failuresOf = (
  request: ReadonlyArray<Sized>,
  { Successful, Failed }: Answer,
  place: AwsErrors.Place,
): Effect.Effect<Failures, SinkError> => {
  if (Successful === undefined && Failed === undefined) return Effect.fail(AwsErrors.notTheService(place))
  const passed = new Set(Successful?.map(({ Id }) => Id))
  const failures = new Map<number, SinkError>()
  for (const { index } of request) {
    const id = String(index)
    if (passed.has(id)) continue
    const failed = Failed?.find(({ Id }) => Id === id)
    failures.set(
      index,
      failed === undefined
        ? AwsErrors.unnamed(place)
        : AwsErrors.entryErrorOf(
            { code: failed.Code, detail: failed.Message, senderFault: failed.SenderFault ?? false },
            place,
          ),
    )
  }
  return Effect.succeed(failures)
}

/** An estimate of what stands around an event's body, in bytes. */
const overhead = 1_024

/** Says it when the relay lets in more than the service takes. */
export const sizeAdvice = (taker: string, largest: number, maxBody: number): ReadonlyArray<string> =>
  maxBody + overhead > largest
    ? [
        `${taker} takes ${largest} bytes at most, all that goes along included, and a delivery may have ${maxBody}: an event that is too large becomes a dead letter; lower the webhook's maxBody, or send large events to another sink`,
      ]
    : []
