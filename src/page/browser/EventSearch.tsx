/** The events that the journal holds, by type, account, object, time and outcome. */

import { useState } from "preact/hooks"
import type { Event } from "../../admin/api/EventApi.ts"
import type { Status } from "../../admin/status/Status.ts"
import { alertingSinks } from "./AlertList.tsx"
import { sinksOf } from "./parts/Actions.tsx"
import { admin } from "./parts/AdminCalls.ts"
import {
  anyEvent,
  Choice,
  EventFields,
  Filters,
  MomentField,
  momentOf,
  TextField,
  timesOf,
  useForm,
  webhooksOf,
} from "./parts/Fields.tsx"
import { Problem, useLatest, useLoaded, Waiting } from "./parts/Loading.tsx"
import { go, linkTo, place } from "./parts/Location.ts"
import { EventLink, Moment, Name, Nothing, number, TypeName } from "./parts/Shown.tsx"
import { type Column, Pager, Table } from "./parts/Table.tsx"
import { Outcomes } from "./SinkOutcomes.tsx"

/** A dead letter's id is the sink and the event's place: `crm:42`. */
const letter = /:([1-9]\d*)$/

/** Reports whether the journal has an event of an object. Each search has a time limit, so it may take several. */
const hasObject = async (object: string): Promise<boolean> => {
  for (let from = {}; ; ) {
    const { events, next } = await admin.events({ object, ...from, limit: 1 })
    if (events.length > 0 || next === undefined) return events.length > 0
    from = { before: next }
  }
}

/**
 * Returns the link to the event, or to the events of an object or an account. An unknown id leads to the event's view,
 * which says so.
 */
const linkOf = async (id: string): Promise<string> => {
  const [, sequence] = letter.exec(id) ?? []
  for (const name of sequence === undefined ? [id] : [id, `seq_${sequence}`]) {
    const { events } = await admin.explain(name, false)
    if (events.length > 0) return linkTo("event", name)
  }
  if (await hasObject(id)) return linkTo("events", "", { object: id })
  const { events } = await admin.events({ account: id, limit: 1 })
  return events.length > 0 ? linkTo("events", "", { account: id }) : linkTo("event", id)
}

export const outcomes = [
  ...["delivered", "pending", "retrying", "dead", "counted", "dropped", "replayed", "moved"],
  ...["laneRemoved", "unrecorded", "unrouted"],
] as const

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

/** A phone shows one column, so a page there has few events and folded filters. */
const isNarrow = matchMedia("(max-width: 760px)").matches

/** One box for ids of every kind. */
const IdSearch = () => {
  const [id, setId] = useState("")
  const [problem, setProblem] = useState("")
  const latest = useLatest()
  const find = () => {
    setProblem("")
    if (id.trim() !== "") latest(linkOf(id.trim()), go, setProblem)
  }
  return (
    <>
      <Filters onSubmit={find}>
        <TextField label="Any id" value={id} onChange={setId} placeholder="evt_… cli_… acct_… seq_…" />
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
  const { form, field } = useForm({ ...anyEvent, sink: "", deliveredAfter: "", attemptsOver: "", alert: "", ...query })
  const { before = "" } = query
  const page = useLoaded(JSON.stringify(query), () => {
    const { deliveredAfter, type, ...filters } = query
    return admin.events({
      ...filters,
      ...(type !== undefined && { types: type }),
      ...timesOf(query),
      deliveredAfter: momentOf(deliveredAfter),
      limit: isNarrow ? 20 : 50,
    })
  })
  const { value, isBusy } = page
  const search = () => {
    const { before: _, ...rest } = { before: "", ...form }
    const next = linkTo("events", "", rest)
    if (next === location.hash) page.again()
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
          {alertingSinks(status).length > 0 && <TextField label="Counted by alert" {...field("alert")} />}
          <button type="submit">Search</button>
        </Filters>
      </details>
      <Waiting of={page} />
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
