/** Why a sink fails: its failures by cause, its last attempts, and a replay of what failed since a time. */
import { useState } from "preact/hooks"
import { letterWords } from "../../admin/replay/ReplayCommand.ts"
import { relayCommand } from "../../formats/Terminal.ts"
import { admin, problemOf } from "./AdminCalls.ts"
import { changes, confirmReplay } from "./DeadLetterActions.tsx"
import { Filters, MomentField, momentOf } from "./Fields.tsx"
import { Problem, useLoaded } from "./Loading.tsx"
import { linkTo } from "./Location.ts"
import { say } from "./Messages.ts"
import { EventLink, Message, Moment, millis, Nothing, number, Pill, TypeName } from "./Shown.tsx"
import { type Attempted, attemptedOf, type Cause, causesOf } from "./SinkAttempts.ts"
import { type Column, Table } from "./Table.tsx"

/** Dead letters, and events that wait for a retry, that are read for the causes. */
const newest = 1_000
/** Events that are read for the last attempts. */
const recent = 50
const shownAttempts = 10
const shownCauses = 20

const load = async (sink: string) => {
  const [letters, retrying, events] = await Promise.all([
    admin.deadLetters({ sink, limit: newest }),
    admin.events({ sink, outcome: "retrying", limit: newest }),
    admin.events({ sink, limit: recent }),
  ])
  return {
    causes: causesOf(letters, retrying.events, sink),
    attempts: attemptedOf(letters.slice(0, recent), [...retrying.events.slice(0, recent), ...events.events], sink),
    isCut: letters.length === newest || retrying.next !== undefined,
  }
}

const causeColumns: ReadonlyArray<Column<Cause>> = [
  { title: "Events", kind: "amount", cell: ({ count }) => number(count) },
  { title: "Why", kind: "words", cell: ({ message }) => <Message of={message} max={500} /> },
  { title: "Type", kind: "name", cell: ({ type }) => <TypeName of={type} max={80} /> },
  { title: "Newest", cell: ({ at }) => <Moment at={at} /> },
  { title: "Event", cell: ({ id, sequence }) => <EventLink id={id} sequence={sequence} /> },
]

const attemptColumns: ReadonlyArray<Column<Attempted>> = [
  { title: "Time", cell: ({ at }) => <Moment at={at} /> },
  { title: "Event", cell: ({ id, sequence }) => <EventLink id={id} sequence={sequence} /> },
  { title: "Attempt", kind: "amount", cell: ({ number: which }) => which },
  {
    title: "Answer",
    cell: ({ code, isDelivered }) => (
      <Pill tone={isDelivered ? "good" : "bad"}>{code ?? (isDelivered ? "accepted" : "failed")}</Pill>
    ),
  },
  { title: "Took", kind: "amount", cell: ({ took }) => (took === undefined ? undefined : millis(took)) },
  { title: "Why", kind: "words", cell: ({ message }) => (message === "" ? undefined : <Message of={message} />) },
]

/** Asks before it replays the sink's dead letters of events that were received since a time. */
const ReplaySince = ({ sink }: { readonly sink: string }) => {
  const [since, setSince] = useState("")
  const at = momentOf(since)
  const ask = () => {
    const selection = { sink, ...(at !== undefined && { since: at }) }
    admin.previewDeadLetters(selection).then(
      ({ count }) => confirmReplay(selection, count, relayCommand("dlq", "replay", ...letterWords(selection))),
      (error: unknown) => say(problemOf(error), true),
    )
  }
  return (
    <Filters onSubmit={ask}>
      <MomentField label="Received since" value={since} onChange={setSince} />
      <button type="submit">{at === undefined ? "Replay all dead letters…" : "Replay since…"}</button>
      <a class="button" href={linkTo("dead-letters", "", { sink })}>
        List dead letters
      </a>
    </Filters>
  )
}

export const SinkFailures = ({ sink, deadLetters }: { readonly sink: string; readonly deadLetters: number }) => {
  const { value, problem } = useLoaded(`${sink} ${deadLetters} ${changes.value}`, () => load(sink))
  return (
    <>
      <section aria-labelledby="causes">
        <h2 id="causes">Failures by cause</h2>
        {deadLetters > 0 && <ReplaySince sink={sink} />}
        <Problem of={problem} />
        {value?.causes.length === 0 && <Nothing>No dead letters, and no event waits for a retry.</Nothing>}
        {value !== undefined && value.causes.length > 0 && (
          <Table rows={value.causes.slice(0, shownCauses)} columns={causeColumns} keyOf={({ message }) => message} />
        )}
        {value?.isCut === true && <p class="quiet">Of the newest {number(newest)} dead letters and retries.</p>}
      </section>
      <section aria-labelledby="attempts">
        <h2 id="attempts">Last attempts</h2>
        {value?.attempts.length === 0 && <Nothing>No attempt is kept.</Nothing>}
        {value !== undefined && value.attempts.length > 0 && (
          <Table
            rows={value.attempts.slice(0, shownAttempts)}
            columns={attemptColumns}
            keyOf={({ sequence, number: which }) => `${sequence} ${which}`}
          />
        )}
      </section>
    </>
  )
}
