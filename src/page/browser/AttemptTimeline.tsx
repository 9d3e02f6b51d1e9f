/** An event's story: every step in the order of time, with the attempts' durations and answers, and a picture of the attempts. */
import type { EventReport } from "../../admin/api/EventApi.ts"
import { duration, plain, span } from "../../formats/Texts.ts"
import { linkTo } from "./parts/Location.ts"
import { Message, Moment, Name, Pill, Text } from "./parts/Shown.tsx"
import { type Column, Table } from "./parts/Table.tsx"

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

const toneOf = ({ attempt, what }: Step) => {
  if (attempt !== undefined) return attempt.delivered ? "good" : "bad"
  return /dead letter|dropped|quarantined|no route/.test(what) ? "bad" : "quiet"
}

const after = (at: number, receivedAt: number): string =>
  at - receivedAt < 1_000 ? `+${Math.max(0, at - receivedAt)} ms` : `+${span(at - receivedAt)}`

const columnsOf = (receivedAt: number): ReadonlyArray<Column<Step>> => [
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
      <span class={`step ${toneOf(step)}`}>
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
const Picture = ({ steps, receivedAt }: { readonly steps: ReadonlyArray<Step>; readonly receivedAt: number }) => {
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

export const AttemptTimeline = ({ report: { timeline, receivedAt } }: { readonly report: EventReport }) => (
  <>
    <Picture steps={timeline} receivedAt={receivedAt} />
    <Table
      rows={timeline}
      columns={columnsOf(receivedAt)}
      keyOf={(step) => `${step.at} ${step.sink} ${timeline.indexOf(step)}`}
    />
  </>
)
