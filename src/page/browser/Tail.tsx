/** Shows accepted events and refused requests live. */
import { signal } from "@preact/signals"
import { useEffect, useState } from "preact/hooks"
import type { Tap, Tapped } from "../../admin/api/LiveTail.ts"
import type { Status, TappedRefusal } from "../../admin/status/Status.ts"
import { quarantine } from "../../event/Event.ts"
import { sinksOf } from "./parts/Actions.tsx"
import { admin, problemOf } from "./parts/AdminCalls.ts"
import { Button, Choice, Filters, TypeField, useForm, webhooksOf } from "./parts/Fields.tsx"
import { Problem } from "./parts/Loading.tsx"
import { linkTo } from "./parts/Location.ts"
import { link } from "./parts/RelayLink.ts"
import { Message, Moment, Name, Nothing, number, Pill, Text, TypeName } from "./parts/Shown.tsx"
import { type Column, Table } from "./parts/Table.tsx"

/** The maximum number of rows that are kept. Older ones are in the journal. */
const most = 200
/** The interval between two polls, and the wait after a filter changed, in milliseconds. */
const every = 500
const typing = 250
let keys = 0

type Row = (Tapped | TappedRefusal) & { readonly key: number }

const rows = signal<ReadonlyArray<Row>>([])
const skipped = signal(0)
/** Set once the relay has answered after a change of the filter. Later events are shown. */
const isListening = signal(false)

const wait = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

const draw = ({ events, refused, skipped: missed }: Tap): void => {
  isListening.value = true
  if (missed > 0) skipped.value += missed
  if (events.length + refused.length === 0) return
  const added = [...events, ...refused]
    .toSorted((a, b) => b.at - a.at)
    .map((one) => {
      keys += 1
      return { ...one, key: keys }
    })
  rows.value = [...added, ...rows.value].slice(0, most)
}

const clear = (): void => {
  rows.value = []
  isListening.value = false
  skipped.value = 0
}

const columns: ReadonlyArray<Column<Row>> = [
  { title: "Time", cell: ({ at }) => <Moment at={at} /> },
  {
    title: "Type",
    kind: "name",
    cell: (row) =>
      "refused" in row ? (
        <Pill tone="warn">refused {row.status}</Pill>
      ) : (
        <>
          <TypeName of={row.type} max={80} isStrong /> {row.replayed && <Pill tone="quiet">replayed</Pill>}
        </>
      ),
  },
  {
    title: "Event",
    cell: (row) => {
      if ("refused" in row)
        return <Message of={row.detail === "" ? row.what : `${row.what} · ${row.detail}`} max={240} />
      if (row.id === "") return "(no id)"
      return (
        <a href={linkTo("event", row.id)}>
          <Name of={row.id} />
        </a>
      )
    },
  },
  { title: "Account", cell: (row) => ("refused" in row ? undefined : <Name of={row.account} />) },
  {
    title: "Sinks",
    cell: (row) => {
      if ("refused" in row) return row.webhook === "" ? undefined : <small>to {<Text of={row.webhook} />}</small>
      return row.sinks.length === 0 ? <Pill tone="warn">to no sink</Pill> : <Name of={row.sinks.join(", ")} max={80} />
    },
  },
]

export const Tail = ({ status }: { readonly status: Status }) => {
  const { form: filter, field } = useForm({ type: "", webhook: "", sink: "" })
  const [isPaused, setPaused] = useState(false)
  const [problem, setProblem] = useState("")
  const isLive = link.value === "live"
  // The shown lines belong to the old filter.
  useEffect(clear, [filter])
  useEffect(() => {
    if (isPaused || !isLive) return
    const abort = new AbortController()
    const follow = async () => {
      // Waits until the user stops typing a pattern.
      await wait(typing)
      setProblem("")
      for (let last: Tap | undefined; !abort.signal.aborted; await wait(every)) {
        last = await admin.tap(filter, last, abort.signal)
        draw(last)
      }
    }
    follow().catch((error: unknown) => !abort.signal.aborted && setProblem(problemOf(error)))
    return () => abort.abort()
  }, [filter, isPaused, isLive])
  return (
    <section aria-labelledby="tail">
      <h1 id="tail">Live</h1>
      <Filters>
        <TypeField {...field("type")} />
        <Choice label="Webhook" {...field("webhook")} of={webhooksOf(status)} />
        <Choice label="Sink" {...field("sink")} of={[...sinksOf(status), quarantine]} />
        <Button text={isPaused ? "Resume" : "Pause"} isPressed={isPaused} onClick={() => setPaused(!isPaused)} />
      </Filters>
      <Problem of={problem} />
      <p class="quiet" role="status">
        {isPaused ? "Paused." : isListening.value ? "Listening; at most 200 a second are shown." : "Connecting…"}
        {skipped.value > 0 && ` ${number(skipped.value)} more were not.`}
      </p>
      {rows.value.length === 0 ? (
        <Nothing>
          Nothing yet. <code>relay trigger appointment.created</code> sends one.
        </Nothing>
      ) : (
        <Table
          rows={rows.value}
          columns={columns}
          keyOf={({ key }) => key}
          classOf={(row) => ("refused" in row ? "refused" : "")}
          kind="tail"
        />
      )}
    </section>
  )
}
