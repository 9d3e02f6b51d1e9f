/** Which sinks a type goes to and why, as it is typed; and the routes in force. */
import { useEffect, useState } from "preact/hooks"
import type { Status, TypeReport } from "../../admin/Api.ts"
import { admin, Refusal } from "./AdminCalls.ts"
import { Choice, TypeField } from "./Fields.tsx"
import { Problem, useLoaded } from "./Loading.tsx"
import { number, Pill, Text } from "./Shown.tsx"
import { Verdicts } from "./Verdicts.tsx"

const pause = 120

const Answer = ({ report }: { readonly report: TypeReport }) => {
  const { type, isKnown, sinks, conditional, routes } = report
  return (
    <div aria-live="polite">
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
      {!isKnown && <p class="advice">It is not in the sender’s catalogue.</p>}
      <Verdicts routes={routes} />
    </div>
  )
}

const Routes = () => {
  const { value, problem } = useLoaded("routes", admin.routes)
  const areAny = value?.some(({ count }) => count > 0) === true
  return (
    <>
      <Problem of={problem} />
      <div class="scroll">
        <table class="cards">
          <thead>
            <tr>
              <th scope="col">Route</th>
              <th scope="col">Patterns</th>
              <th scope="col">Conditions</th>
              <th scope="col">Sinks</th>
              <th scope="col" class="amount">
                Since the start
              </th>
            </tr>
          </thead>
          <tbody>
            {value?.map(({ name, match, except, webhook, where, to, count }) => (
              <tr key={name}>
                <th scope="row">
                  <Text of={name} />
                </th>
                <td data-label="Patterns" class="code">
                  <Text of={match.join(", ")} />
                  {except.length > 0 && (
                    <>
                      {" "}
                      except <Text of={except.join(", ")} />
                    </>
                  )}
                </td>
                <td data-label="Conditions" class="code">
                  {webhook !== undefined && (
                    <>
                      webhook <Text of={webhook} />{" "}
                    </>
                  )}
                  {Object.entries(where).map(([pointer, values]) => (
                    <div key={pointer}>
                      <Text of={`${pointer}: ${JSON.stringify(values)}`} />
                    </div>
                  ))}
                  {webhook === undefined && Object.keys(where).length === 0 && "–"}
                </td>
                <td data-label="Sinks">
                  <Text of={to.join(", ")} />
                </td>
                <td data-label="Since the start" class="amount">
                  {count === 0 ? (
                    <Pill tone={areAny ? "warn" : "quiet"}>none yet</Pill>
                  ) : (
                    `${Object.keys(where).length > 0 ? "≤ " : ""}${number(count)}`
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}

export const RouteExplainer = ({ status }: { readonly status: Status }) => {
  const [type, setType] = useState("")
  const [webhook, setWebhook] = useState("")
  const [report, setReport] = useState<TypeReport | undefined>(undefined)
  const [problem, setProblem] = useState("")
  const { loadedAt } = status.config
  // A reload changes what the routes say
  useEffect(() => {
    if (type.trim() === "") return setReport(undefined)
    const abort = new AbortController()
    const timer = setTimeout(() => {
      admin.explainType(type.trim(), webhook, abort.signal).then(
        (found) => {
          setReport(found)
          setProblem("")
        },
        (error: unknown) => {
          if (!abort.signal.aborted) setProblem(error instanceof Refusal ? error.message : String(error))
        },
      )
    }, pause)
    return () => {
      clearTimeout(timer)
      abort.abort()
    }
  }, [type, webhook, loadedAt])
  return (
    <section aria-labelledby="explain">
      <h1 id="explain">Routes</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <TypeField
          label="Where would this type go?"
          value={type}
          onChange={setType}
          placeholder="appointment.created"
        />
        <Choice
          label="By the webhook"
          value={webhook}
          of={status.webhooks.map(({ name }) => name)}
          onChange={setWebhook}
        />
      </form>
      <Problem of={problem} />
      {report === undefined ? <Routes key={loadedAt} /> : <Answer report={report} />}
    </section>
  )
}
