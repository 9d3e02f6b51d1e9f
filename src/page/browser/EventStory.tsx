/** The report of an event: its failures, origin and attempts, the payloads for its sinks, and its routes. */
import { Fragment } from "preact"
import { useState } from "preact/hooks"
import { absence, atTheSender, unsigned } from "../../admin/api/Absence.ts"
import type { EventReport, EventReports } from "../../admin/api/EventApi.ts"
import type { Status } from "../../admin/status/Status.ts"
import { quarantine } from "../../event/Event.ts"
import { mask } from "../../event/Quoted.ts"
import { parsedJson } from "../../event/Tolerance.ts"
import { duration, plain, relayCommand, span } from "../../formats/Texts.ts"
import { changes } from "./parts/Actions.tsx"
import { admin } from "./parts/AdminCalls.ts"
import { confirm } from "./parts/Confirm.tsx"
import { Button } from "./parts/Fields.tsx"
import { useLoaded, Waiting } from "./parts/Loading.tsx"
import { linkTo } from "./parts/Location.ts"
import { Block, Message, Moment, Name, Nothing, number, Pill, Text, TypeName, shown as zoned } from "./parts/Shown.tsx"
import { type Column, Table } from "./parts/Table.tsx"
import { Verdicts } from "./RouteExplainer.tsx"
import { failedFirst, type Sink, SinkOutcomes } from "./SinkOutcomes.tsx"

/** A payload may hold a text that is JSON. */
const isMember = (value: unknown): value is object => typeof value === "object" && value !== null

/** Returns the paths of the values that have a masked part, such as `body.data.object.name`. */
const masksIn = (value: unknown, path = ""): ReadonlyArray<string> => {
  const inner = typeof value === "string" && /^[[{]/.test(value) ? parsedJson(value) : value
  if (isMember(inner)) {
    return Object.entries(inner).flatMap(([key, member]) =>
      masksIn(member, Array.isArray(inner) ? `${path}[${key}]` : path === "" ? key : `${path}.${key}`),
    )
  }
  return typeof value === "string" && value.includes(mask) ? [path] : []
}

/** A {@link Block} with marked masks. */
const MaskedBlock = ({ of, label }: { readonly of: string; readonly label: string }) => (
  <Block label={label}>
    {of.split(mask).map((part, index) => (
      // The parts of a text have no ids, so their order is the key.
      <Fragment key={`${index} ${part}`}>
        {index > 0 && <mark>{mask}</mark>}
        {part.split("\n").map(plain).join("\n")}
      </Fragment>
    ))}
  </Block>
)

/** A payload may be a text. It may also contain a text that is JSON. */
const written = (payload: unknown): string => (typeof payload === "string" ? payload : JSON.stringify(payload, null, 2))

const origins = { delivered: "Received", replayed: "Replay; received", moved: "Moved; received" } as const

/** Lists the names of the masked values, so that nobody mistakes a mask for a value. */
const Masked = ({ paths }: { readonly paths: ReadonlyArray<string> }) =>
  paths.length === 0 ? null : (
    <p class="quiet">
      Masked: <Text of={paths.join(", ")} max={600} />
    </p>
  )

const sentHeading = ({ outcome, sentIn }: Sink): string => {
  if (sentIn !== undefined) return "What would be sent of this event alone, by the active config"
  return outcome === "delivered" ? "Sent, as the active config renders it" : "What would be sent, by the active config"
}

/** The request or message for a sink. */
const Sent = ({ sink: one }: { readonly sink: Sink }) => {
  const { sink, payload, sentIn, note } = one
  return (
    <div>
      <h4>{sentHeading(one)}</h4>
      {sentIn !== undefined && <p class="quiet">A {sentIn} of several events has another body and idempotency key.</p>}
      {payload !== undefined && (
        <>
          <Masked paths={masksIn(payload)} />
          <MaskedBlock of={written(payload)} label={`${plain(sink)}: ${sentHeading(one)}`} />
        </>
      )}
      {note !== undefined && (
        <p class="quiet">
          <Message of={note} />
        </p>
      )}
    </div>
  )
}

/** The answers to failed attempts, and the response code of the successful attempt. */
const Answered = ({ sink: { sink, attempts, outcome, at, code, took, tries } }: { readonly sink: Sink }) => (
  <div>
    <h4>Answered</h4>
    {attempts.length === 0 && outcome !== "delivered" && <p class="quiet">Nothing yet.</p>}
    <ol class="attempts">
      {attempts.map(({ at, number, took, code, message, answer = "" }, index) => (
        <li key={`${at} ${index}`}>
          <AttemptLine {...{ at, took, code }} number={number ?? index + 1} />
          <p>
            <Message of={message} max={2_000} />
          </p>
          {answer !== "" && (
            <>
              {answer.includes(mask) && <Masked paths={["the answer, which may repeat what was sent"]} />}
              <MaskedBlock of={answer} label={`The answer of ${plain(sink)} to attempt ${number ?? index + 1}`} />
            </>
          )}
        </li>
      ))}
      {outcome === "delivered" && (
        <li>
          <AttemptLine {...{ at, took, code }} number={tries ?? 1} isGood />
        </li>
      )}
    </ol>
  </div>
)

const AttemptLine = ({
  at,
  number,
  took,
  code,
  isGood = false,
}: {
  readonly at: number | undefined
  readonly number: number
  readonly took: number | undefined
  readonly code: number | undefined
  readonly isGood?: boolean
}) => (
  <p class="attempt">
    <strong>Attempt {number}</strong>
    {code !== undefined && <Pill tone={isGood ? "good" : "bad"}>{code}</Pill>}
    {isGood && code === undefined && <Pill tone="good">accepted</Pill>}
    {took !== undefined && <span>{duration(took)}</span>}
    {at !== undefined && (
      <span class="quiet">
        <Moment at={at} />
      </span>
    )}
  </p>
)

const AtSink = ({ sink }: { readonly sink: Sink }) => (
  <li class="card">
    <h3>
      <Text of={sink.sink} />
    </h3>
    <div class="sides">
      <Answered sink={sink} />
      <Sent sink={sink} />
    </div>
  </li>
)

const Facts = ({ report }: { readonly report: EventReport }) => {
  const { sequence, type, accountId, webhook, webhookId, receivedAt, origin, size, signature, secret, problem } = report
  const { erased } = report
  return (
    <dl>
      <dt>Type</dt>
      <dd>
        <TypeName of={type} isStrong />
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
        <Moment at={receivedAt} exact /> by <Text of={webhookId === "" ? webhook : `${webhook} (${webhookId})`} />
      </dd>
      <dt>Stored as</dt>
      <dd>
        seq_{sequence}, {number(size)} bytes
      </dd>
      {erased !== undefined && (
        <>
          <dt>Erased</dt>
          <dd>
            <Moment at={erased} exact />: body, signature and answers are gone
          </dd>
        </>
      )}
      <dt>Signature</dt>
      <dd>
        {erased !== undefined ? (
          "erased"
        ) : signature === "" ? (
          <Text of={unsigned(report)} />
        ) : (
          <>
            <span class="code">
              <Text of={signature} />
            </span>{" "}
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
            <Message of={problem} max={1_000} />
          </dd>
        </>
      )}
    </dl>
  )
}

type Step = EventReport["timeline"][number]

/** Shows a sequence as a link to its event. */
const Linked = ({ of }: { readonly of: string }) => {
  const [before = "", sequence, after = ""] = of.split(/\b(seq_[0-9]+)\b/)
  if (sequence === undefined) return <Message of={of} max={2_000} />
  return (
    <>
      <Message of={before} max={2_000} />
      <a href={linkTo("event", sequence)}>{sequence}</a>
      <Message of={after} max={2_000} />
    </>
  )
}

const stepTone = ({ attempt, what }: Step) => {
  if (attempt !== undefined) return attempt.delivered ? "good" : "bad"
  return /dead letter|dropped|quarantined|no route/.test(what) ? "bad" : "quiet"
}

const after = (at: number, receivedAt: number): string =>
  at - receivedAt < 1_000 ? `+${Math.max(0, at - receivedAt)} ms` : `+${span(at - receivedAt)}`

const stepColumns = (receivedAt: number): ReadonlyArray<Column<Step>> => [
  { title: "Time", cell: ({ at }) => (at === undefined ? undefined : <Moment at={at} />) },
  {
    title: "After",
    kind: "amount",
    cell: ({ at }) => (at === undefined || at === receivedAt ? undefined : after(at, receivedAt)),
  },
  { title: "Sink", cell: ({ sink }) => (sink === undefined ? undefined : <Name of={sink} max={300} />) },
  {
    title: "What happened",
    kind: "words",
    cell: (step) => (
      <span class={`step ${stepTone(step)}`}>
        <Linked of={step.what} />
      </span>
    ),
  },
  {
    title: "Took",
    kind: "amount",
    cell: ({ attempt }) => (attempt?.took === undefined ? undefined : duration(attempt.took)),
  },
  {
    title: "Answer",
    cell: ({ attempt }) =>
      attempt?.code === undefined ? undefined : <Pill tone={attempt.delivered ? "good" : "bad"}>{attempt.code}</Pill>,
  },
]

const width = 1_000
const row = 22

/**
 * Draws a line for each sink, which begins when the event was received, with a bar
 * for each attempt. A bar's length is the attempt's duration.
 */
const AttemptPicture = ({
  steps,
  receivedAt,
}: {
  readonly steps: ReadonlyArray<Step>
  readonly receivedAt: number
}) => {
  const attempts = steps.filter(({ attempt, at }) => attempt !== undefined && at !== undefined)
  const sinks = [...new Set(attempts.map(({ sink = "" }) => sink))]
  const end = Math.max(receivedAt + 1, ...attempts.map(({ at = 0 }) => at))
  const x = (at: number) => (width * Math.max(0, at - receivedAt)) / (end - receivedAt)
  if (attempts.length < 2) return null
  return (
    <div class="picture">
      <ul aria-hidden="true">
        {sinks.map((sink) => (
          <li key={sink}>
            <Text of={sink} max={24} />
          </li>
        ))}
      </ul>
      <svg
        viewBox={`0 0 ${width} ${row * sinks.length}`}
        height={row * sinks.length}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${attempts.length} attempts within ${span(end - receivedAt)}, at ${plain(sinks.join(", "))}`}
      >
        {sinks.map((sink, index) => (
          <line key={sink} class="rail" x1={0} x2={width} y1={(index + 0.5) * row} y2={(index + 0.5) * row} />
        ))}
        {attempts.map(({ at = 0, sink = "", attempt }, index) => {
          const from = x(at - (attempt?.took ?? 0))
          const wide = Math.max(5, x(at) - from)
          return (
            <rect
              key={`${sink} ${index}`}
              class={attempt?.delivered === true ? "good" : "bad"}
              x={Math.min(from, width - wide)}
              y={sinks.indexOf(sink) * row + 4}
              width={wide}
              height={row - 8}
            />
          )
        })}
      </svg>
      <span class="axis" aria-hidden="true">
        <span>received</span>
        <span>{after(end, receivedAt)}</span>
      </span>
    </div>
  )
}

const AttemptTimeline = ({ report: { timeline, receivedAt } }: { readonly report: EventReport }) => (
  <>
    <AttemptPicture steps={timeline} receivedAt={receivedAt} />
    <Table
      rows={timeline}
      columns={stepColumns(receivedAt)}
      keyOf={(step) => `${step.at} ${step.sink} ${timeline.indexOf(step)}`}
    />
  </>
)

const Report = ({ report }: { readonly report: EventReport }) => (
  <article>
    <SinkOutcomes report={report} />
    {report.sinks.length === 0 && <Nothing>No route took it.</Nothing>}
    <Facts report={report} />
    <h2>What happened</h2>
    <AttemptTimeline report={report} />
    <h2>Answered and sent</h2>
    <ul class="sinks">
      {failedFirst(report.sinks).map((sink) => (
        <AtSink key={sink.sink} sink={sink} />
      ))}
    </ul>
    {report.routes.length > 0 && (
      <>
        <h2>What the routes in force say</h2>
        <Verdicts routes={report.routes} />
      </>
    )}
  </article>
)

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

/** The buttons beside the title. */
const Actions = ({
  id,
  events,
  isRevealed,
  onReveal,
  again,
}: {
  readonly id: string
  readonly events: ReadonlyArray<EventReport>
  readonly isRevealed: boolean
  readonly onReveal: (isRevealed: boolean) => void
  readonly again: () => void
}) => (
  <>
    {events.some(({ sinks, erased }) => erased === undefined && sinks.some(({ sink }) => sink !== quarantine)) && (
      <a class="button primary" href={linkTo("replay", "", { id: `seq_${events[0]?.sequence}` })}>
        Replay this event…
      </a>
    )}
    {isRevealed ? (
      <Button text="Mask personal data" onClick={() => onReveal(false)} />
    ) : (
      <Button text="Show personal data…" onClick={() => reveal(id, () => onReveal(true))} />
    )}
    <Button text="Refresh" onClick={again} />
  </>
)

/** A time for use in a sentence. */
const timeOf = (at: number): string => {
  const date = new Date(at)
  return Number.isNaN(date.getTime()) ? `${at} ms` : zoned(date, true)
}

const Absent = ({ id, found: { kept, next } }: { readonly id: string; readonly found: EventReports }) => {
  if (next !== undefined) {
    return <Nothing>Not found so far: older events are still being indexed. Ask again in a minute.</Nothing>
  }
  if (kept === undefined) return <Nothing>The journal holds no such event.</Nothing>
  const shown = id.length > 120 ? `${id.slice(0, 120)}…` : id
  return (
    <div class="nothing">
      <p class="answer">
        <Message of={absence(shown, kept, timeOf)} max={1_000} />
      </p>
      <p>
        <Message of={atTheSender(shown)} max={1_000} />
      </p>
    </div>
  )
}

export const EventStory = ({ id }: { readonly id: string; readonly status: Status }) => {
  const [isRevealed, setRevealed] = useState(false)
  const story = useLoaded(`${id} ${isRevealed}`, () => admin.explain(id, isRevealed), `${changes.value}`)
  const { value, isBusy, again } = story
  const events = value?.events ?? []
  const [first] = events
  return (
    <section aria-labelledby="story" aria-busy={isBusy}>
      <div class="heading">
        <h1 id="story">
          <Text of={first === undefined || first.id === "" ? id : first.id} max={120} />
        </h1>
        <Actions {...{ id, events, isRevealed, again }} onReveal={setRevealed} />
      </div>
      <Waiting of={story} />
      {events.map((report) => (
        <Report key={report.sequence} report={report} />
      ))}
      {value !== undefined && first === undefined && <Absent id={id} found={value} />}
    </section>
  )
}
