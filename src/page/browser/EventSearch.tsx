/** The events that the journal holds, by type, account, time and outcome. */
import { useState } from "preact/hooks"
import type { Event } from "../../admin/api/EventReport.ts"
import type { Status } from "../../admin/status/Status.ts"
import { admin, problemOf } from "./AdminCalls.ts"
import { linkOf } from "./AnyId.ts"
import {
  anyEvent,
  Choice,
  EventFields,
  Filters,
  MomentField,
  momentOf,
  TextField,
  useForm,
  webhooksOf,
} from "./Fields.tsx"
import { Problem, useLoaded } from "./Loading.tsx"
import { go, linkTo, place } from "./Location.ts"
import { Outcomes } from "./Outcome.tsx"
import { EventLink, Moment, Name, Nothing, number, TypeName } from "./Shown.tsx"
import { sinksOf } from "./SinkActions.tsx"
import { type Column, Pager, Table } from "./Table.tsx"

const outcomes = [
  ...["delivered", "pending", "retrying", "dead", "dropped", "replayed", "moved"],
  ...["laneRemoved", "unrecorded", "unrouted"],
]

const columns: ReadonlyArray<Column<Event>> = [
  { title: "Received", cell: ({ receivedAt }) => <Moment at={receivedAt} /> },
  { title: "Type", kind: "name", cell: ({ type }) => <TypeName of={type} max={80} isStrong /> },
  {
    title: "Event",
    cell: ({ id, sequence, origin, erased }) => (
      <>
        <EventLink id={id} sequence={sequence} /> {origin !== "delivered" && <small>{origin}</small>}
        {erased !== undefined && <small> erased</small>}
      </>
    ),
  },
  { title: "Account", cell: ({ accountId }) => (accountId !== "" ? <Name of={accountId} /> : undefined) },
  {
    title: "Sinks",
    kind: "outcomes",
    cell: ({ sinks }) => <Outcomes of={sinks} />,
  },
]

/** A phone shows one column: few events a page, and filters when they are asked for. */
const isNarrow = matchMedia("(max-width: 760px)").matches

/** One box for ids of every kind. */
const IdSearch = () => {
  const [id, setId] = useState("")
  const [problem, setProblem] = useState("")
  const find = () => {
    setProblem("")
    if (id.trim() !== "") linkOf(id.trim()).then(go, (error: unknown) => setProblem(problemOf(error)))
  }
  return (
    <>
      <Filters onSubmit={find}>
        <TextField label="Any id" value={id} onChange={setId} placeholder="evt_… acct_… seq_…" />
        <button type="submit" class="primary">
          Find
        </button>
      </Filters>
      <Problem of={problem} />
    </>
  )
}

export const EventSearch = ({ status }: { readonly status: Status }) => {
  const { query } = place.value
  const { form, field } = useForm({ ...anyEvent, sink: "", deliveredAfter: "", attemptsOver: "", ...query })
  const { before = "" } = query
  const { value, problem, isBusy, again } = useLoaded(JSON.stringify(query), () => {
    const { since, until, deliveredAfter, type, ...filters } = query
    return admin.events({
      ...filters,
      ...(type !== undefined && { types: type }),
      since: momentOf(since),
      until: momentOf(until),
      deliveredAfter: momentOf(deliveredAfter),
      limit: isNarrow ? 20 : 50,
    })
  })
  const search = () => {
    const { before: _, ...rest } = { before: "", ...form }
    const next = linkTo("events", "", rest)
    if (next === location.hash) again()
    else go(next)
  }
  return (
    <section aria-labelledby="events">
      <h1 id="events">Events</h1>
      <IdSearch />
      <details open={!isNarrow || Object.keys(query).length > 0}>
        <summary>Filters</summary>
        <Filters onSubmit={search}>
          <EventFields {...{ field, outcomes }} webhooks={[...webhooksOf(status), "relay"]} />
          <Choice label="Sink" {...field("sink")} of={sinksOf(status)} />
          <MomentField label="Delivered from" {...field("deliveredAfter")} />
          <TextField label="More attempts than" {...field("attemptsOver")} />
          <button type="submit">Search</button>
        </Filters>
      </details>
      <Problem of={problem} />
      {value !== undefined && value.events.length > 0 && (
        <Table rows={value.events} keyOf={({ sequence }) => sequence} {...{ columns, isBusy }} kind="events" />
      )}
      {value?.events.length === 0 && <Nothing>No match in {number(value.looked)} events searched.</Nothing>}
      {value !== undefined && (
        <Pager
          newest={before === "" ? undefined : linkTo("events", "", { ...query, before: undefined })}
          older={value.next && linkTo("events", "", { ...query, before: value.next })}
        >
          {number(value.looked)} searched
          {value.lookedTo > 0 && (
            <>
              , back to <Moment at={value.lookedTo} exact />
            </>
          )}
        </Pager>
      )}
    </section>
  )
}
