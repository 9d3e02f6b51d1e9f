/** The events that the journal holds, by type, account, time and outcome. */
import { useState } from "preact/hooks"
import type { Event, Status } from "../../admin/Api.ts"
import { admin } from "./AdminCalls.ts"
import { Choice, MomentField, momentOf, TextField, TypeField } from "./Fields.tsx"
import { Problem, useLoaded } from "./Loading.tsx"
import { go, linkTo, place } from "./Location.ts"
import { Outcome } from "./Outcome.tsx"
import { Moment, Nothing, number, Text, TypeName } from "./Shown.tsx"

const outcomes = [
  ...["delivered", "pending", "retrying", "dead", "dropped", "replayed", "moved"],
  ...["laneRemoved", "unrecorded", "unrouted"],
]

export const EventRow = ({ event }: { readonly event: Event }) => {
  const { id, sequence, type, accountId, receivedAt, sinks, origin } = event
  return (
    <tr>
      <td data-label="Received">
        <Moment at={receivedAt} />
      </td>
      <td data-label="Type">
        <strong>
          <TypeName of={type} max={80} />
        </strong>
      </td>
      <td data-label="Event">
        <a href={linkTo("event", `seq_${sequence}`)}>
          <Text of={id === "" ? `seq_${sequence}` : id} max={60} />
        </a>
        {origin !== "delivered" && <small> {origin}</small>}
      </td>
      <td data-label="Account">
        <Text of={accountId === "" ? "–" : accountId} max={60} />
      </td>
      <td data-label="Sinks" class="outcomes">
        {sinks.length === 0 ? (
          <Outcome of="unrouted" />
        ) : (
          sinks.map(({ sink, outcome }) => <Outcome key={sink} of={outcome} at={sink} />)
        )}
      </td>
    </tr>
  )
}

export const EventSearch = ({ status }: { readonly status: Status }) => {
  const { query } = place.value
  const [form, setForm] = useState({
    id: "",
    type: "",
    account: "",
    webhook: "",
    outcome: "",
    since: "",
    until: "",
    deliveredAfter: "",
    attemptsOver: "",
    ...query,
  })
  const { before = "" } = query
  const set = (key: keyof typeof form) => (value: string) => setForm((now) => ({ ...now, [key]: value }))
  const { value, problem, isBusy, again } = useLoaded(JSON.stringify(query), () => {
    const since = momentOf(query.since ?? "")
    const until = momentOf(query.until ?? "")
    const deliveredAfter = momentOf(query.deliveredAfter ?? "")
    const { type = "", account = "", webhook = "", outcome = "", attemptsOver = "" } = query
    return admin.events({
      ...{ type, account, webhook, outcome, attemptsOver, before },
      ...(since !== undefined && { since }),
      ...(until !== undefined && { until }),
      ...(deliveredAfter !== undefined && { deliveredAfter }),
    })
  })
  const search = (event: SubmitEvent) => {
    event.preventDefault()
    const { id, before: _, ...rest } = { before: "", ...form }
    const next = id.trim() === "" ? linkTo("events", "", rest) : linkTo("event", id.trim())
    if (next === location.hash) again()
    else go(next)
  }
  return (
    <section aria-labelledby="events">
      <h1 id="events">Events</h1>
      <form class="filters" onSubmit={search}>
        <TextField label="Id" value={form.id} onChange={set("id")} placeholder="evt_… or seq_…" />
        <TypeField label="Type" value={form.type} onChange={set("type")} placeholder="appointment.**" />
        <TextField label="Account" value={form.account} onChange={set("account")} />
        <Choice
          label="Webhook"
          value={form.webhook}
          of={[...status.webhooks.map(({ name }) => name), "relay"]}
          onChange={set("webhook")}
        />
        <Choice label="Outcome" value={form.outcome} of={outcomes} onChange={set("outcome")} />
        <MomentField label="Received from" value={form.since} onChange={set("since")} />
        <MomentField label="Received before" value={form.until} onChange={set("until")} />
        <MomentField label="Delivered from" value={form.deliveredAfter} onChange={set("deliveredAfter")} />
        <TextField label="More attempts than" value={form.attemptsOver} onChange={set("attemptsOver")} />
        <button type="submit" class="primary">
          Search
        </button>
      </form>
      <Problem of={problem} />
      {value !== undefined && value.events.length > 0 && (
        <div class="scroll" aria-busy={isBusy}>
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">Received</th>
                <th scope="col">Type</th>
                <th scope="col">Event</th>
                <th scope="col">Account</th>
                <th scope="col">Sinks</th>
              </tr>
            </thead>
            <tbody>
              {value.events.map((event) => (
                <EventRow key={event.sequence} event={event} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {value !== undefined && value.events.length === 0 && (
        <Nothing>No such event among {number(value.looked)} looked at.</Nothing>
      )}
      {value !== undefined && (
        <nav class="pages" aria-label="Pages">
          <span class="quiet">
            {number(value.looked)} looked at
            {value.lookedTo > 0 && (
              <>
                , back to <Moment at={value.lookedTo} exact />
              </>
            )}
          </span>
          {before !== "" && (
            <a class="button" href={linkTo("events", "", { ...query, before: undefined })}>
              Newest
            </a>
          )}
          {value.next !== undefined && (
            <a class="button" href={linkTo("events", "", { ...query, before: value.next })}>
              Older
            </a>
          )}
        </nav>
      )}
    </section>
  )
}
