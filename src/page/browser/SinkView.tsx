/** One sink: how its lane is, its rate, durations and backlog over time, and the ways to its events. */
import { useEffect } from "preact/hooks"
import type { Lane, LaneHistory, Status } from "../../admin/status/Status.ts"
import { admin } from "./AdminCalls.ts"
import { Chart, Key, rates, spanShown } from "./Chart.tsx"
import { Problem, useLoaded } from "./Loading.tsx"
import { linkTo } from "./Location.ts"
import { Ago, Message, millis, Nothing, number, Pill, perSecond, Text } from "./Shown.tsx"
import { SinkActions, sinksOf } from "./SinkActions.tsx"
import { SinkFailures } from "./SinkFailures.tsx"
import { Backlog, toneOf } from "./SinkTable.tsx"

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
            label: `${span}: 99 of 100 attempts ended within ${millis(most(p99))} or less`,
            unit: (top) => `p99 ${millis(top)}`,
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
            <Key of="p99" name="p99" figure={p99[step] == null ? "–" : millis(p99[step])} unit="" />
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
