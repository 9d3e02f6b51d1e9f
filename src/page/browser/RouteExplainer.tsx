/** Shows the sinks of an event type, and the reasons, while it is typed. Also shows the active routes. */

import { useEffect, useState } from "preact/hooks"
import type { Route } from "../../admin/api/Api.ts"
import type { EventReport } from "../../admin/api/EventApi.ts"
import type { Status } from "../../admin/status/Status.ts"
import { isRelayEvent } from "../../event/EventType.ts"
import { nearestType } from "../../event/Nearest.ts"
import { admin } from "./parts/AdminCalls.ts"
import { Button, Choice, Filters, TypeField, webhooksOf } from "./parts/Fields.tsx"
import { Problem, useLoaded, Waiting } from "./parts/Loading.tsx"
import { Name, number, Pill, Text, type Tone } from "./parts/Shown.tsx"
import { type Column, Table } from "./parts/Table.tsx"

type Verdict = EventReport["routes"][number]

const tones: Partial<Record<Verdict["verdict"], Tone>> = { matches: "good", resolves: "good", "matches when": "warn" }

const columns: ReadonlyArray<Column<Verdict>> = [
  { title: "Route", cell: ({ route }) => <Name of={route} max={300} /> },
  { title: "Verdict", cell: ({ verdict }) => <Pill tone={tones[verdict] ?? "quiet"}>{verdict}</Pill> },
  { title: "Because of", kind: "code", cell: ({ because }) => <Text of={because} /> },
  { title: "Sinks", cell: ({ sinks }) => <Name of={sinks.join(", ")} max={300} /> },
]

/** Shows for each route whether it takes an event or a type, and why. */
export const Verdicts = ({ routes }: { readonly routes: ReadonlyArray<Verdict> }) => (
  <Table
    rows={routes}
    columns={columns}
    keyOf={({ route }) => route}
    classOf={({ verdict }) => (tones[verdict] === undefined ? "faded" : "")}
    hasHeading
  />
)

const pause = 120

/** The same hint as on the command line. */
const DidYouMean = ({ type, onChoose }: { readonly type: string; readonly onChoose: (type: string) => void }) => {
  const near = nearestType(type)
  if (near === undefined) return null
  return (
    <>
      {" "}
      Did you mean {near.isBelow && "one of its own, such as "}
      <Button text={near.type} class="small" onClick={() => onChoose(near.type)} />?
    </>
  )
}

interface AnswerProps {
  readonly type: string
  readonly webhook: string
  readonly loadedAt: number
  readonly onChoose: (type: string) => void
}

const Answer = ({ type, webhook, loadedAt, onChoose }: AnswerProps) => {
  const answer = useLoaded(JSON.stringify([type, webhook]), () => admin.explainType(type, webhook), `${loadedAt}`)
  if (answer.value === undefined) return <Waiting of={answer} />
  const { isKnown, sinks, conditional, routes } = answer.value
  return (
    <div aria-live="polite">
      <Problem of={answer.problem} />
      <p class="answer">
        <Text of={type} /> →{" "}
        {sinks.length === 0 ? (
          <Pill tone="warn">no sink</Pill>
        ) : (
          <strong>
            <Text of={sinks.join(", ")} />
          </strong>
        )}
        {conditional.length > 0 && (
          <>
            , and possibly{" "}
            <strong>
              <Text of={conditional.join(", ")} />
            </strong>
          </>
        )}
      </p>
      {!isKnown && (
        <p class="advice">
          It is not in the sender’s catalogue.
          <DidYouMean {...{ type, onChoose }} />
        </p>
      )}
      <Verdicts routes={routes} />
    </div>
  )
}

const columnsOf = (routes: ReadonlyArray<Route>): ReadonlyArray<Column<Route>> => [
  { title: "Route", cell: ({ name }) => <Name of={name} max={300} /> },
  {
    title: "Patterns",
    kind: "code",
    cell: ({ match, except }) => (
      <>
        <Text of={match.join(", ")} />
        {except.length > 0 && (
          <>
            {" "}
            except <Text of={except.join(", ")} />
          </>
        )}
      </>
    ),
  },
  {
    title: "Conditions",
    kind: "code",
    cell: ({ webhook, within, where }) => {
      const all = [
        ...(webhook === undefined ? [] : [`webhook ${webhook}`]),
        ...(within === undefined ? [] : [`within ${within}`]),
        ...Object.entries(where).map(([pointer, values]) => `${pointer}: ${JSON.stringify(values)}`),
      ]
      return all.length === 0
        ? undefined
        : all.map((one) => (
            <div key={one}>
              <Text of={one} />
            </div>
          ))
    },
  },
  { title: "Sinks", cell: ({ to }) => <Name of={to.join(", ")} max={300} /> },
  { title: "Since the start", kind: "amount", cell: (route) => <RouteCount {...{ route, routes }} /> },
]

/** Reports whether a route matches only the relay's own events. Only deliveries are counted. */
export const isOwn = ({ match }: Route): boolean => match.every(isRelayEvent)

/** The number of events that a route matched. It is amber if the route matched none and others matched some. */
export const RouteCount = ({ route, routes }: { readonly route: Route; readonly routes: ReadonlyArray<Route> }) => {
  const { count, where, within } = route
  if (isOwn(route)) {
    return (
      <span class="quiet" title="It takes only the relay’s own events, which are not counted">
        –
      </span>
    )
  }
  const isMost = within !== undefined || Object.keys(where).length > 0
  if (count > 0) return <>{`${isMost ? "≤ " : ""}${number(count)}`}</>
  return <Pill tone={routes.some((one) => one.count > 0) ? "warn" : "quiet"}>none yet</Pill>
}

const Routes = ({ loadedAt }: { readonly loadedAt: number }) => {
  const list = useLoaded("routes", admin.routes, `${loadedAt}`)
  const { value = [] } = list
  return (
    <>
      <Waiting of={list} />
      <Table rows={value} columns={columnsOf(value)} keyOf={({ name }) => name} hasHeading />
    </>
  )
}

export const RouteExplainer = ({ status }: { readonly status: Status }) => {
  const [type, setType] = useState("")
  const [webhook, setWebhook] = useState("")
  const [asked, setAsked] = useState({ type, webhook })
  const { loadedAt } = status.config
  // Waits until the user stops typing
  useEffect(() => {
    const timer = setTimeout(() => setAsked({ type: type.trim(), webhook }), pause)
    return () => clearTimeout(timer)
  }, [type, webhook])
  return (
    <section aria-labelledby="explain">
      <h1 id="explain">Routes</h1>
      <Filters>
        <TypeField
          label="Where would this type go?"
          value={type}
          onChange={setType}
          placeholder="appointment.created"
        />
        <Choice label="By the webhook" value={webhook} of={webhooksOf(status)} onChange={setWebhook} />
      </Filters>
      {asked.type === "" ? <Routes loadedAt={loadedAt} /> : <Answer {...asked} {...{ loadedAt }} onChoose={setType} />}
    </section>
  )
}
