/** Where an event is at each sink, failures first: why it failed, and the ways to send it again. */
import type { EventReport } from "../../admin/api/EventReport.ts"
import { relayCommand } from "../../formats/Terminal.ts"
import { dedupKeyOf } from "./AlertKey.ts"
import { confirmReplay } from "./DeadLetterActions.tsx"
import { linkTo } from "./Location.ts"
import { Outcome } from "./Outcome.tsx"
import { Message, Moment, Text } from "./Shown.tsx"

export type Sink = EventReport["sinks"][number]

/** Outcomes that need a person or more attempts come first. */
const firstOutcomes = ["dead", "retrying", "pending", "dropped", "laneRemoved", "unrecorded"]

const rankOf = ({ outcome }: Sink): number => {
  const rank = firstOutcomes.indexOf(outcome)
  return rank === -1 ? firstOutcomes.length : rank
}

export const failedFirst = (sinks: ReadonlyArray<Sink>): ReadonlyArray<Sink> =>
  sinks.toSorted((one, other) => rankOf(one) - rankOf(other))

/** The reason of the last failed attempt, with the service's own words, unless the event was delivered after it. */
const reasonOf = ({ outcome, attempts }: Sink): string =>
  outcome === "delivered" ? "" : (attempts.at(-1)?.message ?? "")

const When = ({ of: { outcome, due, at, attempts } }: { readonly of: Sink }) => {
  if (outcome === "retrying" && due !== undefined) {
    return (
      <span>
        {attempts.length === 0 ? "first" : "next"} attempt at <Moment at={due} />
      </span>
    )
  }
  if (outcome !== "dead" || at === undefined) return null
  return (
    <span>
      since <Moment at={at} />
    </span>
  )
}

const SinkOutcome = ({
  sink,
  sequence,
  isErased,
}: {
  readonly sink: Sink
  readonly sequence: number
  readonly isErased: boolean
}) => {
  const { lane, outcome, sentIn, payload } = sink
  const dedupKey = dedupKeyOf(payload)
  const id = `${sink.sink}:${sequence}`
  const reason = reasonOf(sink)
  return (
    <li class="card">
      <div class="heading">
        <h2>
          <a href={linkTo("sink", sink.sink)}>
            <Text of={sink.sink} />
          </a>
        </h2>
        <Outcome of={sink} />
        <When of={sink} />
        {outcome === "dead" && !isErased && (
          <button type="button" onClick={() => confirmReplay({ ids: [id] }, 1, relayCommand("dlq", "replay", id))}>
            Replay…
          </button>
        )}
      </div>
      {reason !== "" && (
        <p class="reason">
          <Message of={reason} max={2_000} />
        </p>
      )}
      {dedupKey !== undefined && (
        <p>
          PagerDuty incident: dedup key{" "}
          <code>
            <Text of={dedupKey} />
          </code>
          {sentIn === "digest" && ", shared by the events of its digest"}
        </p>
      )}
      {lane !== undefined && (
        <p>
          The sink is <Message of={lane} max={1_000} />
        </p>
      )}
    </li>
  )
}

export const SinkOutcomes = ({ report: { sinks, sequence, erased } }: { readonly report: EventReport }) => (
  <ul class="sinks" aria-label="Sinks">
    {failedFirst(sinks).map((sink) => (
      <SinkOutcome key={sink.sink} sink={sink} sequence={sequence} isErased={erased !== undefined} />
    ))}
  </ul>
)
