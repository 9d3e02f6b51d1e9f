/** All that is known of an event: where it came from, where the routes send it, each attempt, what would be sent. */
import { useState } from "preact/hooks"
import type { EventReport, Status } from "../../admin/Api.ts"
import { quarantine } from "../../event/Event.ts"
import { relayCommand } from "../../formats/Shell.ts"
import { plain } from "../../formats/Terminal.ts"
import { admin } from "./AdminCalls.ts"
import { confirm } from "./Confirm.tsx"
import { confirmReplay } from "./DeadLetterActions.tsx"
import { Problem, useLoaded } from "./Loading.tsx"
import { linkTo } from "./Location.ts"
import { Outcome } from "./Outcome.tsx"
import { Block, Moment, Nothing, number, Text, TypeName } from "./Shown.tsx"
import { Verdicts } from "./Verdicts.tsx"

type Sink = EventReport["sinks"][number]

/** A payload may be a text, or hold one that is JSON. */
const written = (payload: unknown): string => (typeof payload === "string" ? payload : JSON.stringify(payload, null, 2))

const origins = { delivered: "Received", replayed: "Replay; received", moved: "Moved; received" } as const

const Attempts = ({ sink }: { readonly sink: Sink }) => (
  <ol class="attempts">
    {sink.attempts.map(({ at, reason, message, answer }, index) => (
      <li key={`${at} ${index}`}>
        <Moment at={at} /> <strong>{reason}</strong>
        <p>
          <Text of={message} max={2_000} />
        </p>
        {answer !== undefined && answer !== "" && (
          <Block of={answer} label={`The answer of ${sink.sink} to attempt ${index + 1}`} />
        )}
      </li>
    ))}
  </ol>
)

/** A sequence leads to its event. */
const Linked = ({ of }: { readonly of: string }) => {
  const [before = "", sequence, after = ""] = of.split(/\b(seq_[0-9]+)\b/)
  if (sequence === undefined) return <Text of={of} max={2_000} />
  return (
    <>
      <Text of={before} max={2_000} />
      <a href={linkTo("event", sequence)}>{sequence}</a>
      <Text of={after} max={2_000} />
    </>
  )
}

const Timeline = ({ steps }: { readonly steps: EventReport["timeline"] }) => (
  <ol class="attempts" aria-label="What happened">
    {steps.map(({ at, sink, what }, index) => (
      <li key={`${at} ${index}`}>
        {at !== undefined && <Moment at={at} exact />}{" "}
        {sink !== undefined && (
          <strong>
            <Text of={sink} />
          </strong>
        )}
        <p>
          <Linked of={what} />
        </p>
      </li>
    ))}
  </ol>
)

const AtSink = ({
  sink,
  sequence,
  isRevealed,
}: {
  readonly sink: Sink
  readonly sequence: number
  readonly isRevealed: boolean
}) => {
  const { outcome, due, at, lane, payload, note } = sink
  return (
    <li class="card">
      <div class="heading">
        <h3>
          <Text of={sink.sink} />
        </h3>
        <Outcome of={sink} />
        {outcome === "dead" && (
          <button
            type="button"
            onClick={() =>
              confirmReplay(
                { ids: [`${sink.sink}:${sequence}`] },
                1,
                relayCommand("dlq", "replay", `${sink.sink}:${sequence}`),
              )
            }
          >
            Replay…
          </button>
        )}
      </div>
      {due !== undefined && outcome === "retrying" && (
        <p>
          Next attempt at <Moment at={due} />
        </p>
      )}
      {at !== undefined && outcome === "dead" && (
        <p>
          Dead letter since <Moment at={at} />
        </p>
      )}
      {lane !== undefined && (
        <p>
          The sink is <Text of={lane} max={1_000} />
        </p>
      )}
      {sink.attempts.length > 0 && <Attempts sink={sink} />}
      {note !== undefined && (
        <p class="quiet">
          <Text of={note} />
        </p>
      )}
      {payload !== undefined && (
        <details open={isRevealed}>
          <summary>What it would be sent{isRevealed ? "" : ", personal data masked"}</summary>
          <Block of={written(payload)} label={`What ${plain(sink.sink)} would be sent`} />
        </details>
      )}
    </li>
  )
}

const Report = ({ report, isRevealed }: { readonly report: EventReport; readonly isRevealed: boolean }) => {
  const { sequence, id, type, accountId, webhook, webhookId, receivedAt, origin, size, signature, secret, problem } =
    report
  const others = report.sinks.filter(({ sink }) => sink !== quarantine)
  return (
    <article>
      <h2>
        <TypeName of={type} />
      </h2>
      <dl>
        <dt>Event</dt>
        <dd>
          <Text of={id === "" ? "–" : id} max={500} />
        </dd>
        <dt>Account</dt>
        <dd>
          {accountId === "" ? (
            "–"
          ) : (
            <a href={linkTo("events", "", { account: accountId })}>
              <Text of={accountId} />
            </a>
          )}
        </dd>
        <dt>{origins[origin]}</dt>
        <dd>
          <Moment at={receivedAt} exact /> by <Text of={webhook} />
          {webhookId !== "" && (
            <>
              {" "}
              (<Text of={webhookId} />)
            </>
          )}
        </dd>
        <dt>Stored as</dt>
        <dd>
          seq_{sequence}, {number(size)} bytes
        </dd>
        <dt>Signature</dt>
        <dd class="code">
          {signature === "" ? (
            "none, it is the relay’s own event"
          ) : (
            <>
              <Text of={signature} />{" "}
              <small>
                verified by the secret <Text of={secret} />
              </small>
            </>
          )}
        </dd>
        {problem !== undefined && (
          <>
            <dt>Quarantined</dt>
            <dd>
              <Text of={problem} max={1_000} />
            </dd>
          </>
        )}
      </dl>
      <h3>What happened</h3>
      <Timeline steps={report.timeline} />
      {report.sinks.length === 0 && <Nothing>No route took it.</Nothing>}
      <ul class="sinks">
        {report.sinks.map((sink) => (
          <AtSink key={sink.sink} {...{ sink, sequence, isRevealed }} />
        ))}
      </ul>
      {report.routes.length > 0 && (
        <>
          <h3>What the routes in force say</h3>
          <Verdicts routes={report.routes} />
        </>
      )}
      {others.length > 0 && (
        <p>
          <a class="button" href={linkTo("replay", "", { id: `seq_${sequence}` })}>
            Replay this event…
          </a>
        </p>
      )}
    </article>
  )
}

const reveal = (id: string, onYes: () => void): void =>
  confirm({
    title: "Show personal data?",
    what: <p>What the event holds is shown unmasked, answers of receivers included, until you leave it.</p>,
    command: relayCommand("explain", id, "--reveal"),
    yes: "Show it",
    act: async () => {
      onYes()
      return "Personal data is shown."
    },
  })

export const EventStory = ({ id }: { readonly id: string; readonly status: Status }) => {
  const [isRevealed, setRevealed] = useState(false)
  const { value, problem, isBusy, again } = useLoaded(`${id} ${isRevealed}`, () => admin.explain(id, isRevealed))
  return (
    <section aria-labelledby="story" aria-busy={isBusy}>
      <div class="heading">
        <h1 id="story">
          Event <Text of={id} max={80} />
        </h1>
        <button type="button" onClick={again}>
          Look again
        </button>
        {isRevealed ? (
          <button type="button" onClick={() => setRevealed(false)}>
            Mask personal data
          </button>
        ) : (
          <button type="button" onClick={() => reveal(id, () => setRevealed(true))}>
            Show personal data…
          </button>
        )}
      </div>
      <Problem of={problem} />
      {value?.events.map((report) => (
        <Report key={report.sequence} {...{ report, isRevealed }} />
      ))}
      {value?.events.length === 0 && (
        <Nothing>
          {value.next === undefined
            ? `The journal holds no such event; ${number(value.looked)} were looked at.`
            : `Not found so far: older events are still being indexed. Look again in a minute.`}
        </Nothing>
      )}
    </section>
  )
}
