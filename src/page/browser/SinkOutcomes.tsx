/** Shows an event's state at each sink, failures first, with the reasons and the ways to send it again. */
import type { Event, EventReport } from "../../admin/api/EventApi.ts"
import { relayCommand } from "../../formats/Texts.ts"
import { confirmReplay } from "./parts/Actions.tsx"
import { dedupKeyOf } from "./parts/EventFacts.ts"
import { Button } from "./parts/Fields.tsx"
import { linkTo } from "./parts/Location.ts"
import { Message, Moment, Name, Pill, Text, type Tone } from "./parts/Shown.tsx"

type Delivery = Pick<Event["sinks"][number], "sink" | "outcome" | "collecting" | "attempts">

const tones: Readonly<Record<string, Tone>> = {
  delivered: "good",
  retrying: "warn",
  dead: "bad",
  unrouted: "warn",
  dropped: "bad",
  replayed: "warn",
  unrecorded: "warn",
}
const words: Readonly<Record<string, string>> = {
  dead: "dead letter",
  laneRemoved: "sink removed",
  unrecorded: "not recorded",
}

/**
 * An event without a failed attempt is not being retried. Its digest is still
 * filling, or it waits for its sink or for an earlier event.
 */
const stateOf = ({ outcome, collecting, attempts }: Delivery): string => {
  if (outcome !== "retrying" || attempts.length > 0) return outcome
  return collecting === true ? "collecting" : "waiting"
}

const StatePill = ({ of }: { readonly of: string }) => <Pill tone={tones[of] ?? "quiet"}>{words[of] ?? of}</Pill>

/** The state of an event at a sink, in words and a colour. */
const Outcome = ({ of, isNamed = false }: { readonly of: Delivery; readonly isNamed?: boolean }) => (
  <span class="outcome">
    {isNamed && <Name of={of.sink} />} <StatePill of={stateOf(of)} />
  </span>
)

/** The outcomes at all sinks that an event was routed to. */
export const Outcomes = ({ of }: { readonly of: ReadonlyArray<Delivery> }) => (
  <>
    {of.length === 0 && <StatePill of="unrouted" />}
    {of.map((one) => (
      <Outcome key={one.sink} of={one} isNamed />
    ))}
  </>
)

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

/** Events that a sink got in the same attempt ended at the same moment. */
const linkToDigest = (sink: string, at: number): string =>
  linkTo("events", "", {
    ...{ sink, outcome: "delivered" },
    ...{ endedSince: new Date(at).toISOString(), endedUntil: new Date(at + 1).toISOString() },
  })

const SinkOutcome = ({
  sink,
  sequence,
  isErased,
}: {
  readonly sink: Sink
  readonly sequence: number
  readonly isErased: boolean
}) => {
  const { alert, at, lane, outcome, sentIn, payload } = sink
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
          <Button
            text="Replay…"
            onClick={() => confirmReplay({ ids: [id] }, { count: 1 }, relayCommand("dlq", "replay", id))}
          />
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
      {sentIn === "digest" && outcome === "delivered" && at !== undefined && (
        <p>
          <a href={linkToDigest(sink.sink, at)}>All events of its digest</a>
        </p>
      )}
      {alert !== undefined && (
        <p>
          It sent no message of its own:{" "}
          <a href={linkTo("alerts", "", { sink: sink.sink, id: String(alert) })}>alert {alert}</a> counts it.
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
