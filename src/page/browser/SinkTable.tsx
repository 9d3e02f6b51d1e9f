/** The sinks, worst first: the condition of each lane, its waiting events and its last failure. */
import { byLevel, laneLevel } from "../../admin/status/Health.ts"
import type { Lane, Status } from "../../admin/status/Status.ts"
import { quarantine } from "../../event/Event.ts"
import { bounded, span } from "../../formats/Texts.ts"
import { SinkActions, sinksOf } from "./parts/Actions.tsx"
import { linkTo } from "./parts/Location.ts"
import { Ago, Message, Name, number, Pill, type Tone } from "./parts/Shown.tsx"
import { type Column, Table } from "./parts/Table.tsx"

/** The colour of a lane's condition. Dead letters have their own column, so they don't change it. */
export const toneOf = ({ condition, backlog }: Lane): Tone => {
  if (["misconfigured", "blocked", "stalled", "failed"].includes(condition)) return "bad"
  if (condition === "orphaned") return backlog > 0 ? "bad" : "quiet"
  return condition === "running" ? "good" : "warn"
}

/** The number of waiting events. Also shows how many of them wait for another attempt or for their digest. */
export const Backlog = ({ of: { backlog, retrying, collecting = 0 } }: { readonly of: Lane }) => (
  <>
    {number(backlog)}
    {retrying > 0 && <small> ({number(retrying)} retrying)</small>}
    {collecting > 0 && <small> ({number(collecting)} collecting)</small>}
  </>
)

const columnsOf = (status: Status): ReadonlyArray<Column<Lane>> => [
  {
    title: "Sink",
    cell: ({ name, type }) => (
      <>
        <a href={linkTo("sink", name)}>
          <Name of={name} max={300} />
        </a>{" "}
        <small>{type}</small>
      </>
    ),
  },
  { title: "State", cell: (lane) => <Pill tone={toneOf(lane)}>{lane.condition}</Pill> },
  {
    title: "Backlog",
    kind: "amount",
    cell: (lane) => <Backlog of={lane} />,
  },
  {
    title: "Oldest",
    kind: "amount",
    cell: ({ oldestAt }) => (oldestAt === 0 ? undefined : span(status.now - oldestAt)),
  },
  {
    title: "Latency",
    kind: "amount",
    cell: ({ latency }) =>
      latency === undefined ? undefined : (
        <span title="99 of 100 events of the last five minutes were delivered within this time of their acceptance">
          {bounded(latency)}
        </span>
      ),
  },
  {
    title: "p99",
    kind: "amount",
    cell: ({ p99 }) =>
      p99 === undefined ? undefined : (
        <span title="99 of 100 attempts of the last five minutes ended within this time">{bounded(p99)}</span>
      ),
  },
  {
    title: "Dead letters",
    kind: "amount",
    cell: ({ name, deadLetters }) =>
      deadLetters === 0 ? (
        "0"
      ) : (
        <a href={linkTo("dead-letters", "", { sink: name })}>
          <Pill tone="warn">{number(deadLetters)}</Pill>
        </a>
      ),
  },
  {
    title: "Last failure",
    kind: "words",
    cell: ({ lastFailure }) =>
      lastFailure === undefined ? undefined : (
        <>
          <Message of={lastFailure.message} max={120} />{" "}
          <small>
            <Ago at={lastFailure.at} now={status.now} />
          </small>
        </>
      ),
  },
  {
    title: "Next attempt",
    kind: "amount",
    cell: ({ nextAttemptAt }) => {
      if (nextAttemptAt === undefined) return undefined
      return nextAttemptAt - status.now < 1_000 ? "now" : <Ago at={nextAttemptAt} now={status.now} />
    },
  },
  {
    title: "Actions",
    kind: "actions-cell",
    isUntitled: true,
    cell: (lane) => <SinkActions lane={lane} sinks={sinksOf(status)} />,
  },
]

export const SinkTable = ({ status }: { readonly status: Status }) => {
  const lanes = status.lanes
    .filter(({ name, backlog, deadLetters }) => name !== quarantine || backlog + deadLetters > 0)
    .toSorted((a, b) => byLevel(laneLevel(a), laneLevel(b)) || a.name.localeCompare(b.name))
  return (
    <section aria-labelledby="sinks">
      <h2 id="sinks">Sinks</h2>
      <Table rows={lanes} columns={columnsOf(status)} keyOf={({ name }) => name} hasHeading />
    </section>
  )
}
