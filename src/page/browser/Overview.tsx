/** The overview: problems, the last hour, sinks, webhooks, routes and the journal. */

import { Fragment } from "preact"
import { health, isSilent, levelOf, type StatusProblem } from "../../admin/status/Health.ts"
import type { RelayHistory, Status, Totals, Webhook } from "../../admin/status/Status.ts"
import { plain, span } from "../../formats/Texts.ts"
import { SinkActions, sinksOf } from "./parts/Actions.tsx"
import { admin } from "./parts/AdminCalls.ts"
import { Chart, Key, type Line, rates, spanShown } from "./parts/Chart.tsx"
import { confirm } from "./parts/Confirm.tsx"
import { Button } from "./parts/Fields.tsx"
import { useLoaded, Waiting } from "./parts/Loading.tsx"
import { linkTo } from "./parts/Location.ts"
import { say } from "./parts/Messages.ts"
import { history } from "./parts/RelayLink.ts"
import { Ago, Block, Message, Moment, Nothing, number, Pill, perSecond, size, Text } from "./parts/Shown.tsx"
import { type Column, Table } from "./parts/Table.tsx"
import { isOwn, RouteCount } from "./RouteExplainer.tsx"
import { SinkTable } from "./SinkTable.tsx"

type Fleet = NonNullable<Status["fleet"]>
type Relay = Fleet["relays"][number]

const shown = (text: string) => (text === "" ? undefined : <Text of={text} />)

const streams = ({ streams, shared }: Relay): string => {
  const own = number(streams.length - (shared ? 1 : 0))
  return shared ? `${own} and the shared one` : own
}

const columnsOf = (own: Relay | undefined): ReadonlyArray<Column<Relay>> => [
  {
    title: "Relay",
    cell: ({ name, isSelf }) => (
      <>
        <Text of={name} /> {isSelf && <Pill tone="quiet">this one</Pill>}
      </>
    ),
  },
  {
    title: "Last seen",
    cell: (relay) =>
      isSilent(relay) ? <Pill tone="warn">silent for {span(relay.age)}</Pill> : `${span(relay.age)} ago`,
  },
  { title: "Version", cell: ({ version }) => shown(version) },
  {
    title: "Config",
    kind: "code",
    cell: ({ configHash }) =>
      configHash === "" ? undefined : (
        <>
          <Text of={configHash} /> {configHash !== own?.configHash && <Pill tone="warn">another</Pill>}
        </>
      ),
  },
  { title: "Admin API", kind: "code", cell: ({ address }) => shown(address) },
  { title: "Streams", kind: "amount", cell: streams },
  { title: "Waiting", kind: "amount", cell: ({ waiting }) => number(waiting) },
]

/** The relays on one journal. Marks this relay, silent relays and different configs. */
const Relays = ({ fleet: { relays, unowned } }: { readonly fleet: Fleet }) => (
  <section aria-labelledby="relays">
    <h2 id="relays">Relays</h2>
    <Table
      rows={relays}
      columns={columnsOf(relays.find(({ isSelf }) => isSelf))}
      keyOf={({ name }) => name}
      hasHeading
    />
    {unowned.length > 0 && <p class="advice">Streams that no relay delivers at the moment: {unowned.join(", ")}.</p>}
  </section>
)

const reload = (file: string): void =>
  confirm({
    title: "Reload the config?",
    what: (
      <p>
        The relay reads <code>{plain(file)}</code> again and puts all of it in force, or nothing of it where something
        is wrong. What was accepted keeps its route.
      </p>
    ),
    command: "relay reload",
    yes: "Reload",
    act: async () => {
      const { changes, notes, warnings } = await admin.reload()
      for (const text of [...notes, ...warnings.map(({ message }) => message)].slice(0, 3)) say(plain(text))
      const texts = changes.map(({ what, name, change }) => `${what} ${plain(name)} ${change}`)
      return changes.length === 0 ? "Reloaded: nothing has changed." : `Reloaded: ${texts.slice(0, 6).join(", ")}.`
    },
  })

const acknowledge = (message: string): void =>
  confirm({
    title: "Acknowledge the loss?",
    what: (
      <>
        <p>The journal is red until an operator acknowledges it:</p>
        {message.split("\n").map((line) => (
          <p key={line}>
            <Message of={line} max={1_000} />
          </p>
        ))}
        <p>This clears the alarm and repairs nothing; the next loss raises it again.</p>
      </>
    ),
    command: "relay journal acknowledge",
    yes: "Acknowledge",
    act: async () => {
      await admin.acknowledge()
      return "Acknowledged."
    },
  })

const minute = 60_000
const series = ["received", "delivered", "refused", "failed"] as const
type Series = (typeof series)[number]

const words = { received: "In", delivered: "Out", refused: "Refused", failed: "Failed" } as const
const meaning = {
  received: "deliveries accepted",
  delivered: "events that sinks took",
  refused: "requests refused",
  failed: "failed attempts",
} as const

const total = (history: RelayHistory, of: Series): number => history[of].reduce((sum, count) => sum + count, 0)

type Sums = { readonly at: number } & Record<Series, number>

const columns: ReadonlyArray<Column<Sums>> = [
  { title: "Five minutes to", cell: ({ at }) => <Moment at={at} /> },
  ...series.map((of) => ({ title: words[of], kind: "amount", cell: (row: Sums) => number(row[of]) })),
]

/** Twelve rows of five minutes, for users who can't see the graph. */
const rows = ({ at, ...counts }: RelayHistory): ReadonlyArray<Sums> => {
  const found: Array<Sums> = []
  for (let end = at.length; end > 0; end -= 30) {
    const sum = (of: Series) => counts[of].slice(Math.max(0, end - 30), end).reduce((all, count) => all + count, 0)
    found.push({
      at: at[end - 1] ?? 0,
      ...{ received: sum("received"), delivered: sum("delivered"), refused: sum("refused"), failed: sum("failed") },
    })
  }
  return found
}

/** The last hour: received and delivered events. Below, on its own scale: refused requests and failed attempts. */
const Graph = ({
  history,
  totals,
  now,
}: {
  readonly history: RelayHistory
  readonly totals: Totals
  readonly now: number
}) => {
  const steps = { ...history, now }
  const perStep = Object.fromEntries(series.map((of) => [of, rates(steps, history[of])]))
  const line = (of: Series, isFilled = false): Line => ({ of, values: perStep[of] ?? [], isFilled })
  const label = (...shown: ReadonlyArray<Series>) =>
    `${spanShown(steps)}: ${shown.map((of) => `${number(total(history, of))} ${meaning[of]}`).join(", ")}`
  const unit = (top: number) => `${perSecond(top)}/s`
  const counted =
    now - history.since > 59 * minute ? (
      "in the last hour"
    ) : (
      <>
        since <Moment at={history.since} />
      </>
    )
  return (
    <Chart
      steps={steps}
      panels={[
        {
          lines: [line("received", true), line("delivered")],
          height: 132,
          label: label("received", "delivered"),
          unit,
        },
        { lines: [line("refused", true), line("failed")], height: 44, label: label("refused", "failed"), unit },
      ]}
      legend={(step) =>
        series.map((of) => (
          <Key key={of} of={of} name={words[of]} figure={perSecond(perStep[of]?.[step] ?? 0)} unit="/s">
            <span title={`${number(totals[of])} since the start`}>
              {number(total(history, of))} {counted}
            </span>
          </Key>
        ))
      }
    >
      <details class="as-table">
        <summary>As a table</summary>
        <Table rows={rows(history)} columns={columns} keyOf={({ at }) => at} hasHeading />
      </details>
    </Chart>
  )
}

const toneOfLevel = { critical: "bad", warning: "warn", note: "quiet" } as const

const ProblemCard = ({ problem, status }: { readonly problem: StatusProblem; readonly status: Status }) => {
  const { name, lines, action, state } = problem
  const level = levelOf(problem)
  const lane = status.lanes.find((one) => one.name === name)
  const [first = "", ...rest] = lines
  return (
    <li class={`card ${toneOfLevel[level]}`}>
      <div>
        <p class="about">
          <Pill tone={toneOfLevel[level]}>{level}</Pill>{" "}
          <strong>
            <Text of={name} />
          </strong>{" "}
          <Message of={first} max={1_000} />
        </p>
        {rest.length > 0 && (
          <Block label={`More about ${plain(name)}`}>
            {rest.map((line, index) => (
              <Fragment key={index}>
                {index > 0 && "\n"}
                <Message of={line} max={10_000} />
              </Fragment>
            ))}
          </Block>
        )}
        <p class="advice">
          {action !== "" && (
            <>
              What to do: <Message of={action} max={1_000} />.{" "}
            </>
          )}
          More: <code>relay runbook {state}</code>
        </p>
      </div>
      <div class="row-actions">
        {state === "journal-red" && <Button text="Acknowledge…" onClick={() => acknowledge(status.journal.message)} />}
        {state === "reload-refused" && <Button text="Reload…" onClick={() => reload(status.configFile)} />}
        {(state === "dead-letters" || state === "quarantine") && (
          <a class="button" href={linkTo("dead-letters", "", { sink: name })}>
            Show them
          </a>
        )}
        {lane !== undefined && state.startsWith("sink-") && state !== "sink-failing" && (
          <SinkActions lane={lane} sinks={sinksOf(status)} />
        )}
        {lane !== undefined && (
          <a class="button" href={linkTo("sink", name)}>
            Charts
          </a>
        )}
      </div>
    </li>
  )
}

const WebhookCard = ({ webhook, status }: { readonly webhook: Webhook | undefined; readonly status: Status }) => {
  const name = webhook?.name ?? ""
  const refusals = status.refusals.filter((one) => one.webhook === name)
  if (webhook === undefined && refusals.length === 0) return null
  const newest = Math.max(0, ...(webhook?.secrets ?? []).map(({ lastUsed }) => lastUsed))
  return (
    <li class="card">
      <h3>{webhook === undefined ? "To no webhook" : <Text of={name} />}</h3>
      {webhook !== undefined && (
        <ul class="facts">
          {webhook.secrets.map(({ name: secret, lastUsed, expires }) => (
            <li key={secret}>
              <span>
                Secret <Text of={secret} />{" "}
                {lastUsed !== 0 && lastUsed === newest && <Pill tone="good">signed last</Pill>}
              </span>
              <span class="quiet">
                {lastUsed === 0 ? "signed no recent delivery" : <Ago at={lastUsed} now={status.now} />}
                {expires !== undefined && (
                  <>
                    {expires <= status.now ? ", expired " : ", expires "}
                    <Ago at={expires} now={status.now} />
                  </>
                )}
              </span>
            </li>
          ))}
        </ul>
      )}
      {refusals.length === 0 ? (
        <p class="quiet">Nothing refused in the last hour.</p>
      ) : (
        <ul class="facts">
          {refusals.map(({ reason, count, what, status: code, lastAt, details }) => (
            <li key={reason}>
              <span>
                <strong>{number(count)}</strong> refused with {code}: <Message of={what} />
                {details.length > 0 && (
                  <small class="detail">
                    {details.slice(0, 3).map(({ detail, count: times }) => (
                      <span key={detail}>
                        <Text of={detail} max={80} /> ({number(times)})
                      </span>
                    ))}
                  </small>
                )}
              </span>
              <span class="quiet">
                <Ago at={lastAt} now={status.now} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </li>
  )
}

/** Milliseconds after which the counts are read again. */
const countedEvery = 10_000

const RouteCounts = ({ status: { config, now } }: { readonly status: Status }) => {
  const revision = `${config.loadedAt} ${Math.floor(now / countedEvery)}`
  const list = useLoaded("routes", admin.routes, revision)
  const { value: routes = [] } = list
  const most = Math.max(1, ...routes.map(({ count }) => count))
  return (
    <section aria-labelledby="routes">
      <h2 id="routes">
        Routes{" "}
        <a class="more" href={linkTo("routes")}>
          Explain a type
        </a>
      </h2>
      <Waiting of={list} />
      <ul class="bars">
        {routes.map((route) => {
          const { name, count, to } = route
          return (
            <li key={name} class={count === 0 ? "none" : ""}>
              <span class="name">
                <Text of={name} />{" "}
                <small>
                  → <Text of={to.join(", ")} />
                </small>
              </span>
              {isOwn(route) ? (
                <span />
              ) : (
                <meter
                  min={0}
                  max={most}
                  value={count}
                  aria-label={`${plain(name)}: ${number(count)} events since the start`}
                />
              )}
              <span class="amount">
                <RouteCount {...{ route, routes }} />
              </span>
            </li>
          )
        })}
      </ul>
      <p class="quiet">Deliveries since the start; with ≤, a route's condition took some of these.</p>
    </section>
  )
}

const Facts = ({ status }: { readonly status: Status }) => {
  const { journal, version, configFile, startedAt, config, now, certificates, work } = status
  const { usedBytes, maxBytes, freeDiskBytes, answeredAt, head, health: condition } = journal
  const share = Math.round((100 * usedBytes) / Math.max(1, maxBytes))
  return (
    <section aria-labelledby="relay">
      <h2 id="relay">Relay</h2>
      <dl>
        <dt>Version</dt>
        <dd>
          <Text of={version} />, up {span(now - startedAt)}
        </dd>
        <dt>Config</dt>
        <dd>
          <Text of={configFile} />, loaded <Ago at={config.loadedAt} now={now} />{" "}
          <Button text="Reload…" class="small" onClick={() => reload(configFile)} />
        </dd>
        <dt>Journal</dt>
        <dd>
          {condition}, {number(head)} entries so far
          <br />
          <meter
            min={0}
            max={100}
            low={50}
            high={80}
            optimum={0}
            value={share}
            aria-label={`The journal is ${share} % full`}
          />{" "}
          {size(usedBytes)} of {size(maxBytes)}
          {answeredAt !== undefined && `, as of ${span(now - answeredAt)} ago`}
        </dd>
        {freeDiskBytes !== undefined && (
          <>
            <dt>Free space</dt>
            <dd>{size(freeDiskBytes)}</dd>
          </>
        )}
        {certificates.map(({ key, subject, notAfter }) => (
          <Fragment key={key}>
            <dt>
              <Text of={key} />
            </dt>
            <dd>
              <Text of={subject} />, until <Moment at={notAfter} />
            </dd>
          </Fragment>
        ))}
        {work.map(({ what, share: done }) => (
          <Fragment key={what}>
            <dt>In progress</dt>
            <dd>
              <Text of={what} />, {Math.floor(done * 100)} %
            </dd>
          </Fragment>
        ))}
      </dl>
    </section>
  )
}

const noHistory = { since: 0, at: [], received: [], delivered: [], refused: [], failed: [] }

export const Overview = ({ status }: { readonly status: Status }) => {
  const { problems } = health(status)
  const counted = history.value ?? noHistory
  return (
    <>
      <h1 class="unseen">Overview</h1>
      {problems.length > 0 && (
        <section aria-labelledby="problems">
          <h2 id="problems" class="unseen">
            What needs you
          </h2>
          <ul class="problems">
            {problems.map((problem) => (
              <ProblemCard key={`${problem.state} ${problem.name} ${problem.lines[0]}`} {...{ problem, status }} />
            ))}
          </ul>
        </section>
      )}
      <section aria-labelledby="hour">
        <h2 id="hour">
          {spanShown({ ...counted, now: status.now })}
          {status.fleet === undefined ? "" : ", of this relay"}
        </h2>
        <Graph history={counted} totals={status.totals} now={status.now} />
      </section>
      <SinkTable status={status} />
      {status.fleet !== undefined && <Relays fleet={status.fleet} />}
      <div class="columns">
        <section aria-labelledby="webhooks">
          <h2 id="webhooks">Webhooks</h2>
          <ul class="webhooks">
            {[...status.webhooks, undefined].map((webhook) => (
              <WebhookCard key={webhook?.name ?? ""} {...{ webhook, status }} />
            ))}
          </ul>
          {status.webhooks.length === 0 && <Nothing>The config has no webhook.</Nothing>}
        </section>
        <div>
          <RouteCounts status={status} />
          <Facts status={status} />
        </div>
      </div>
    </>
  )
}
