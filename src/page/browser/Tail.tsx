/** The view shows what comes in, as it comes: accepted events and refused requests. */
import { signal } from "@preact/signals"
import { Component } from "preact"
import { useEffect, useState } from "preact/hooks"
import type { Status, TapLine, Tapped } from "../../admin/Api.ts"
import type { TappedRefusal } from "../../admin/RefusedRequest.ts"
import { quarantine } from "../../event/Event.ts"
import { admin, Refusal } from "./AdminCalls.ts"
import { Choice, TypeField } from "./Fields.tsx"
import { Problem } from "./Loading.tsx"
import { linkTo } from "./Location.ts"
import { sinksOf } from "./Overview.tsx"
import { link } from "./RelayLink.ts"
import { Moment, Nothing, number, Pill, Text, TypeName } from "./Shown.tsx"

/** Rows that are kept; older ones are in the journal. */
const most = 200
/** How often they are drawn at most, in milliseconds. */
const every = 250
let keys = 0

type Row = (Tapped | TappedRefusal) & { readonly key: number }

const rows = signal<ReadonlyArray<Row>>([])
const skipped = signal(0)
let waiting: Array<Tapped | TappedRefusal> = []

const take = ({ events, refused, skipped: missed }: typeof TapLine.Type): void => {
  if (missed > 0) skipped.value += missed
  waiting.push(...events, ...refused)
}

const draw = (): void => {
  if (waiting.length === 0) return
  const added = waiting
    .toSorted((a, b) => b.at - a.at)
    .slice(0, most)
    .map((one) => {
      keys += 1
      return { ...one, key: keys }
    })
  waiting = []
  rows.value = [...added, ...rows.value].slice(0, most)
}

const clear = (): void => {
  waiting = []
  rows.value = []
  skipped.value = 0
}

const drawn = (row: Row) =>
  "refused" in row ? (
    <tr class="refused">
      <td>
        <Moment at={row.at} />
      </td>
      <td>
        <Pill tone="warn">refused {row.status}</Pill>
      </td>
      <td class="words" colSpan={3}>
        <Text of={row.what} />
        {row.detail !== "" && (
          <>
            {" "}
            · <Text of={row.detail} max={120} />
          </>
        )}
        {row.webhook !== "" && (
          <small>
            {" "}
            <Text of={row.webhook} />
          </small>
        )}
      </td>
    </tr>
  ) : (
    <tr>
      <td>
        <Moment at={row.at} />
      </td>
      <td>
        <strong>
          <TypeName of={row.type} max={80} />
        </strong>{" "}
        {row.replayed && <Pill tone="quiet">replayed</Pill>}
      </td>
      <td>
        {row.id === "" ? (
          "(no id)"
        ) : (
          <a href={linkTo("event", row.id)}>
            <Text of={row.id} max={60} />
          </a>
        )}
      </td>
      <td>
        <Text of={row.account} max={60} />
      </td>
      <td>
        {row.sinks.length === 0 ? (
          <Pill tone="warn">to no sink</Pill>
        ) : (
          <>
            → <Text of={row.sinks.join(", ")} max={80} />
          </>
        )}
      </td>
    </tr>
  )

/** It never changes, so drawing costs only what is new. */
class TapRow extends Component<{ readonly row: Row }> {
  override shouldComponentUpdate(): boolean {
    return false
  }
  render() {
    return drawn(this.props.row)
  }
}

export const Tail = ({ status }: { readonly status: Status }) => {
  const [filter, setFilter] = useState({ type: "", webhook: "", sink: "" })
  const [isPaused, setPaused] = useState(false)
  const [problem, setProblem] = useState("")
  const isLive = link.value === "live"
  // The lines that were shown belong to the filter.
  useEffect(clear, [filter])
  useEffect(() => {
    if (isPaused || !isLive) return
    const abort = new AbortController()
    const follow = async () => {
      // A pattern is typed letter by letter.
      await new Promise((resolve) => setTimeout(resolve, 250))
      if (abort.signal.aborted) return
      setProblem("")
      for await (const line of admin.tap(filter, abort.signal)) take(line)
    }
    follow().catch((error: unknown) => {
      if (!abort.signal.aborted && error instanceof Refusal) setProblem(error.message)
    })
    const timer = setInterval(draw, every)
    return () => {
      clearInterval(timer)
      abort.abort()
    }
  }, [filter, isPaused, isLive])
  const set = (key: keyof typeof filter) => (value: string) => setFilter((before) => ({ ...before, [key]: value }))
  return (
    <section aria-labelledby="tail">
      <h1 id="tail">Live</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <TypeField label="Type" value={filter.type} onChange={set("type")} placeholder="appointment.**" />
        <Choice
          label="Webhook"
          value={filter.webhook}
          of={status.webhooks.map(({ name }) => name)}
          onChange={set("webhook")}
        />
        <Choice label="Sink" value={filter.sink} of={[...sinksOf(status), quarantine]} onChange={set("sink")} />
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? "Go on" : "Hold"}
        </button>
      </form>
      <Problem of={problem} />
      <p class="quiet" role="status">
        {isPaused ? "Held." : "Listening; at most 100 a second are shown."}
        {skipped.value > 0 && ` ${number(skipped.value)} more were not.`}
      </p>
      {rows.value.length === 0 ? (
        <Nothing>
          Nothing yet. <code>relay trigger appointment.created</code> sends one.
        </Nothing>
      ) : (
        <div class="scroll">
          <table class="tail">
            <thead>
              <tr>
                <th scope="col">Time</th>
                <th scope="col">Type</th>
                <th scope="col">Event</th>
                <th scope="col">Account</th>
                <th scope="col">Sinks</th>
              </tr>
            </thead>
            <tbody>
              {rows.value.map((row) => (
                <TapRow key={row.key} row={row} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}
