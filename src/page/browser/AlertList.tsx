/** Shows the alerts of sinks with `alert`: firing ones first, each with its events, its messages and its next reminder. */
import { useEffect } from "preact/hooks"
import type { AlertDetails, AlertReport } from "../../admin/api/Api.ts"
import type { Status } from "../../admin/status/Status.ts"
import { AlertActions, changes } from "./parts/Actions.tsx"
import { admin } from "./parts/AdminCalls.ts"
import { Choice, Filters } from "./parts/Fields.tsx"
import { useLoaded, Waiting } from "./parts/Loading.tsx"
import { go, linkTo, place } from "./parts/Location.ts"
import { Ago, Message, Moment, Name, Nothing, number, Pill, Text } from "./parts/Shown.tsx"
import { type Column, Table } from "./parts/Table.tsx"

const states = ["firing", "acknowledged", "muted", "pending", "resolved"] as const
const tones = { firing: "bad", acknowledged: "warn", muted: "warn", pending: "quiet", resolved: "good" } as const

/** A sink can have 10,000 alerts. */
const most = 100
const every = 10_000
/** An acknowledgement takes effect with the events before it, which is usually sooner than this. */
const settled = 1_000

/** The sinks whose config has `alert`. */
export const alertingSinks = ({ lanes }: Status): ReadonlyArray<string> =>
  lanes.flatMap(({ name, alertPolicy }) => (alertPolicy === true ? name : []))

const Reminder = ({ of: { remindsAt }, now }: { readonly of: AlertReport; readonly now: number }) => {
  if (remindsAt === undefined) return <>none</>
  return remindsAt <= now ? <>due</> : <Ago at={remindsAt} now={now} />
}

const columnsOf = (now: number): ReadonlyArray<Column<AlertReport>> => [
  {
    title: "Alert",
    cell: ({ sink, id, type, account }) => (
      <>
        <Name of={type} max={80} /> <br />
        <small>
          <a href={linkTo("alerts", "", { sink, id: String(id) })}>id {id}</a>
          {account !== "" && (
            <>
              , <Text of={account} max={40} />
            </>
          )}
        </small>
      </>
    ),
  },
  {
    title: "State",
    cell: ({ status, mutedUntil }) => (
      <>
        <Pill tone={tones[status]}>{status}</Pill>
        {mutedUntil !== undefined && (
          <>
            {" "}
            <br />
            <small>
              until <Moment at={mutedUntil} />
            </small>
          </>
        )}
      </>
    ),
  },
  {
    title: "Sink",
    cell: ({ sink }) => (
      <a href={linkTo("sink", sink)}>
        <Name of={sink} max={300} />
      </a>
    ),
  },
  {
    title: "Since",
    cell: ({ id, first }) => (
      <a href={linkTo("event", `seq_${id}`)}>
        <Moment at={first} />
      </a>
    ),
  },
  {
    title: "Newest",
    cell: ({ newest, last }) => (
      <a href={linkTo("event", `seq_${newest}`)}>
        <Ago at={last} now={now} />
      </a>
    ),
  },
  {
    title: "Failures",
    kind: "amount",
    cell: ({ sink, id, count, others = 0 }) => (
      <a href={linkTo("events", "", { sink, alert: String(id) })} title="The events that it only counts">
        {number(count)}
        {others > 0 && (
          <>
            {" "}
            <br />
            <small>and {number(others)} silenced</small>
          </>
        )}
      </a>
    ),
  },
  {
    title: "Messages",
    cell: ({ messages, sentAt }) => (
      <>
        {number(messages)}
        {messages > 0 && (
          <>
            {" "}
            <br />
            <small>
              last <Ago at={sentAt} now={now} />
            </small>
          </>
        )}
      </>
    ),
  },
  { title: "Next reminder", cell: (alert) => <Reminder of={alert} now={now} /> },
  {
    title: "Actions",
    kind: "actions-cell",
    isUntitled: true,
    cell: (alert) => <AlertActions alert={alert} />,
  },
]

type SentMessage = AlertDetails["messages"][number]

const sentColumns: ReadonlyArray<Column<SentMessage>> = [
  {
    title: "Message",
    cell: ({ sequence, action }) => <a href={linkTo("event", `seq_${sequence}`)}>{action}</a>,
  },
  { title: "Decided", cell: ({ at }) => <Moment at={at} /> },
  { title: "Outcome", cell: ({ outcome = "no longer kept" }) => <>{outcome}</> },
  { title: "Ended", cell: ({ endedAt }) => (endedAt === undefined ? undefined : <Moment at={endedAt} />) },
  { title: "Attempts", kind: "amount", cell: ({ tries }) => (tries === undefined ? undefined : number(tries)) },
]

const eventColumns: ReadonlyArray<Column<AlertDetails["events"][number]>> = [
  {
    title: "Event",
    cell: ({ sequence, id }) => (
      <a href={linkTo("event", `seq_${sequence}`)}>
        <Name of={id || `seq_${sequence}`} max={80} />
      </a>
    ),
  },
  { title: "Received", cell: ({ receivedAt }) => <Moment at={receivedAt} /> },
  { title: "Type", cell: ({ type }) => <Name of={type} max={80} /> },
  { title: "Account", cell: ({ account }) => <Text of={account} max={40} /> },
]

/** The messages of one alert and the events that it counts. */
const Details = ({ of: { sink, id, count, last, sentAt, status } }: { readonly of: AlertReport }) => {
  const found = useLoaded(
    JSON.stringify([sink, id]),
    () => admin.alert(sink, String(id)),
    JSON.stringify([count, last, sentAt, status]),
  )
  if (found.value === undefined) return <Waiting of={found} />
  const { to, messages, events, hasMore } = found.value
  return (
    <>
      <h2>
        Sent to <Text of={to} max={200} />
      </h2>
      {messages.length === 0 ? (
        <Nothing>Nothing yet.</Nothing>
      ) : (
        <Table rows={messages} columns={sentColumns} keyOf={({ sequence }) => String(sequence)} hasHeading />
      )}
      <h2>Only counted</h2>
      {events.length === 0 ? (
        <Nothing>No events.</Nothing>
      ) : (
        <Table rows={events} columns={eventColumns} keyOf={({ sequence }) => String(sequence)} hasHeading />
      )}
      {hasMore && (
        <p>
          <a href={linkTo("events", "", { sink, alert: String(id) })}>All events that it counts</a>
        </p>
      )}
    </>
  )
}

/** Says why no alert is shown. */
const Empty = ({ id, isFiltered }: { readonly id: string; readonly isFiltered: boolean }) => {
  if (id === "") return <Nothing>{isFiltered ? "No alerts here." : "No alerts at the moment."}</Nothing>
  return (
    <Nothing>
      There is no alert <Text of={id} max={40} /> of the sink any more, because it is over.{" "}
      <a href={linkTo("event", `seq_${id}`)}>The event that it began with</a>
    </Nothing>
  )
}

const Unconfigured = () => (
  <Nothing>
    <Message of="No sink has alerts. With `alert` in the config of a sink, failures that belong together are one alert, with reminders: `docs/operations/alerting.md`." />
  </Nothing>
)

export const AlertList = ({ status }: { readonly status: Status }) => {
  const { sink = "", state = "", id = "" } = place.value.query
  const list = useLoaded("", admin.alerts, `${changes.value}`)
  const { value, again } = list
  useEffect(() => {
    const timer = setInterval(again, every)
    return () => clearInterval(timer)
  }, [again])
  useEffect(() => {
    const timer = setTimeout(again, settled)
    return () => clearTimeout(timer)
  }, [again, changes.value])
  const sinks = alertingSinks(status)
  const found = value
    ?.filter((one) => (sink === "" || one.sink === sink) && (state === "" || one.status === state))
    .filter((one) => id === "" || String(one.id) === id)
  const isFiltered = sink !== "" || state !== ""
  const to = (next: Readonly<Record<string, string>>) => go(linkTo("alerts", "", { sink, state, ...next }))
  return (
    <section aria-labelledby="alerts">
      <h1 id="alerts">Alerts</h1>
      {sinks.length === 0 ? (
        <Unconfigured />
      ) : (
        <>
          <Filters>
            <Choice label="Sink" value={sink} of={sinks} onChange={(next) => to({ sink: next })} />
            <Choice label="State" value={state} of={states} onChange={(next) => to({ state: next })} />
            {id !== "" && (
              <a class="button" href={linkTo("alerts")}>
                All alerts
              </a>
            )}
          </Filters>
          <Waiting of={list} />
          {found?.length === 0 && <Empty {...{ id, isFiltered }} />}
          {found !== undefined && found.length > 0 && (
            <Table
              rows={found.slice(0, most)}
              columns={columnsOf(status.now)}
              keyOf={({ sink, id }) => `${sink} ${id}`}
              hasHeading
              kind="alerts"
            />
          )}
          {id !== "" && found?.[0] !== undefined && <Details of={found[0]} />}
          {found !== undefined && found.length > most && (
            <p class="quiet">
              {number(most)} of {number(found.length)} alerts. <code>relay alerts list</code> has all.
            </p>
          )}
        </>
      )}
    </section>
  )
}
