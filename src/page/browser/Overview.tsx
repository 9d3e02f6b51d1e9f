/** At a glance: what needs somebody, the last hour, sinks, webhooks, routes, journal. */
import { Fragment } from "preact"
import { health, levelOf, type StatusProblem } from "../../admin/status/Health.ts"
import type { Status, Webhook } from "../../admin/status/Status.ts"
import { span } from "../../formats/Amounts.ts"
import { plain } from "../../formats/Terminal.ts"
import { admin } from "./AdminCalls.ts"
import { spanShown } from "./Chart.tsx"
import { Graph } from "./Graph.tsx"
import { Problem, useLoaded } from "./Loading.tsx"
import { linkTo } from "./Location.ts"
import { acknowledge, reload } from "./RelayActions.tsx"
import { history } from "./RelayLink.ts"
import { Relays } from "./Relays.tsx"
import { isOwn, RouteCount } from "./RouteExplainer.tsx"
import { Ago, Block, Message, Moment, Nothing, number, Pill, size, Text } from "./Shown.tsx"
import { SinkActions, sinksOf } from "./SinkActions.tsx"
import { SinkTable } from "./SinkTable.tsx"

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
        {state === "journal-red" && (
          <button type="button" onClick={() => acknowledge(status.journal.message)}>
            Acknowledge…
          </button>
        )}
        {state === "reload-refused" && (
          <button type="button" onClick={() => reload(status.configFile)}>
            Reload…
          </button>
        )}
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

const RouteCounts = () => {
  const { value: routes = [], problem } = useLoaded("routes", admin.routes)
  const most = Math.max(1, ...routes.map(({ count }) => count))
  return (
    <section aria-labelledby="routes">
      <h2 id="routes">
        Routes{" "}
        <a class="more" href={linkTo("routes")}>
          Explain a type
        </a>
      </h2>
      <Problem of={problem} />
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
          <button type="button" class="small" onClick={() => reload(configFile)}>
            Reload…
          </button>
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
          <RouteCounts />
          <Facts status={status} />
        </div>
      </div>
    </>
  )
}
