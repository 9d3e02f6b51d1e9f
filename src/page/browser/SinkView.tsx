/** Shows one sink: the state of its lane, its rate, durations and backlog over time, and links to its events. */
import { useEffect, useState } from "preact/hooks"
import { letterWords } from "../../admin/replay/ReplayCommand.ts"
import type { Lane, LaneHistory, Status } from "../../admin/status/Status.ts"
import { duration, relayCommand } from "../../formats/Texts.ts"
import { changes, confirmReplay, SinkActions, sinksOf } from "./parts/Actions.tsx"
import { admin } from "./parts/AdminCalls.ts"
import { Chart, Key, rates, spanShown } from "./parts/Chart.tsx"
import { type Attempted, attemptedOf, type Cause, causesOf } from "./parts/EventFacts.ts"
import { Filters, MomentField, momentOf } from "./parts/Fields.tsx"
import { Problem, useLatest, useLoaded, Waiting } from "./parts/Loading.tsx"
import { linkTo } from "./parts/Location.ts"
import { say } from "./parts/Messages.ts"
import { Ago, EventLink, Message, Moment, Nothing, number, Pill, perSecond, Text, TypeName } from "./parts/Shown.tsx"
import { type Column, Table } from "./parts/Table.tsx"
import { Backlog, toneOf } from "./SinkTable.tsx"

/** The maximum number of dead letters, and of retrying events, from which the causes are counted. */
const newest = 1_000
/** The maximum number of events that are read for the last attempts. */
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
  { title: "Types", kind: "name", cell: ({ types }) => <TypeName of={types.join(", ")} max={80} /> },
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
  { title: "Took", kind: "amount", cell: ({ took }) => (took === undefined ? undefined : duration(took)) },
  { title: "Why", kind: "words", cell: ({ message }) => (message === "" ? undefined : <Message of={message} />) },
]

/** Replays the sink's dead letters of events received since a time, after a confirmation. */
const ReplaySince = ({ sink }: { readonly sink: string }) => {
  const [since, setSince] = useState("")
  const at = momentOf(since)
  const latest = useLatest(since)
  const ask = () => {
    const selection = { sink, ...(at !== undefined && { since: at }) }
    latest(
      admin.previewDeadLetters(selection),
      (preview) => confirmReplay(selection, preview, relayCommand("dlq", "replay", ...letterWords(selection))),
      (problem) => say(problem, true),
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

/**
 * Shows why a sink fails: its failures by cause, its last attempts, and a replay of the events that failed since a
 * time.
 */
const SinkFailures = ({ sink, deadLetters }: { readonly sink: string; readonly deadLetters: number }) => {
  const failures = useLoaded(sink, () => load(sink), `${deadLetters} ${changes.value}`)
  const { value } = failures
  return (
    <>
      <section aria-labelledby="causes">
        <h2 id="causes">Failures by cause</h2>
        {deadLetters > 0 && <ReplaySince sink={sink} />}
        <Waiting of={failures} />
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

const every = 10_000

const Charts = ({ history, now }: { readonly history: LaneHistory; readonly now: number }) => {
  const steps = { ...history, now }
  const delivered = rates(steps, history.delivered)
  const failed = rates(steps, history.failed)
  const { p99, backlog } = history
  const span = spanShown(steps)
  const most = (values: ReadonlyArray<number | null>) => Math.max(0, ...values.map((value) => value ?? 0))
  return (
    <section aria-labelledby="charts">
      <h2 id="charts">{span}, at this relay</h2>
      <Chart
        steps={steps}
        panels={[
          {
            lines: [
              { of: "delivered", values: delivered, isFilled: true },
              { of: "failed", values: failed },
            ],
            height: 110,
            label: `${span}: up to ${perSecond(most(delivered))} events delivered and ${perSecond(most(failed))} failed per second`,
            unit: (top) => `${perSecond(top)}/s`,
          },
          {
            lines: [{ of: "p99", values: p99 }],
            height: 70,
            label: `${span}: 99 of 100 attempts ended within ${duration(most(p99))} or less`,
            unit: (top) => `p99 ${duration(top)}`,
          },
          {
            lines: [{ of: "backlog", values: backlog, isFilled: true }],
            height: 70,
            label: `${span}: a backlog of up to ${number(most(backlog))} events`,
            unit: (top) => `${number(Math.round(top))} waiting`,
          },
        ]}
        legend={(step) => (
          <>
            <Key of="delivered" name="Delivered" figure={perSecond(delivered[step] ?? 0)} unit="/s" />
            <Key of="failed" name="Failed" figure={perSecond(failed[step] ?? 0)} unit="/s" />
            <Key of="p99" name="p99" figure={p99[step] == null ? "–" : duration(p99[step])} unit="" />
            <Key of="backlog" name="Backlog" figure={number(backlog[step] ?? 0)} unit="" />
          </>
        )}
      />
    </section>
  )
}

const Facts = ({ lane, now }: { readonly lane: Lane; readonly now: number }) => {
  const { name, target, message, deadLetters, lastFailure, nextAttemptAt } = lane
  return (
    <dl>
      {target !== undefined && (
        <>
          <dt>Target</dt>
          <dd>
            <Text of={target} />
          </dd>
        </>
      )}
      {message !== "" && (
        <>
          <dt>Why</dt>
          <dd>
            <Message of={message} max={1_000} />
          </dd>
        </>
      )}
      {lastFailure !== undefined && (
        <>
          <dt>Last failure</dt>
          <dd>
            <Message of={lastFailure.message} max={1_000} />,{" "}
            <span class="quiet">
              <Ago at={lastFailure.at} now={now} />
            </span>
          </dd>
        </>
      )}
      {nextAttemptAt !== undefined && (
        <>
          <dt>Next attempt</dt>
          <dd>{nextAttemptAt - now < 1_000 ? "now" : <Ago at={nextAttemptAt} now={now} />}</dd>
        </>
      )}
      <dt>Backlog</dt>
      <dd>
        <Backlog of={lane} />
      </dd>
      <dt>Dead letters</dt>
      <dd>
        {deadLetters === 0 ? "0" : <a href={linkTo("dead-letters", "", { sink: name })}>{number(deadLetters)}</a>}
      </dd>
    </dl>
  )
}

export const SinkView = ({ name, status }: { readonly name: string; readonly status: Status }) => {
  const lane = status.lanes.find((one) => one.name === name)
  const { value, problem, again } = useLoaded(name, () => admin.laneHistory(name))
  useEffect(() => {
    const timer = setInterval(again, every)
    return () => clearInterval(timer)
  }, [again])
  return (
    <section aria-labelledby="sink">
      <div class="heading">
        <h1 id="sink">
          <Text of={name} max={120} /> {lane !== undefined && <small>{lane.type}</small>}
        </h1>
        {lane !== undefined && (
          <>
            <Pill tone={toneOf(lane)}>{lane.condition}</Pill>
            <SinkActions lane={lane} sinks={sinksOf(status)} />
          </>
        )}
      </div>
      {lane === undefined ? <Nothing>There is no such sink.</Nothing> : <Facts lane={lane} now={status.now} />}
      {lane !== undefined && <SinkFailures sink={name} deadLetters={lane.deadLetters} />}
      {value !== undefined ? <Charts history={value} now={status.now} /> : <Problem of={lane && problem} />}
    </section>
  )
}
