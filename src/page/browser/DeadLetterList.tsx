/** Dead letters and the quarantine: why each could not be delivered, and what to do with them. */
import { useEffect, useRef, useState } from "preact/hooks"
import type { DeadLetter, Selection, Status } from "../../admin/Api.ts"
import { quarantine } from "../../event/Event.ts"
import { plain } from "../../formats/Terminal.ts"
import { admin, Refusal } from "./AdminCalls.ts"
import { changes, confirmDrop, confirmReplay } from "./DeadLetterActions.tsx"
import { Choice, TypeField } from "./Fields.tsx"
import { Problem, useLoaded } from "./Loading.tsx"
import { go, linkTo, place } from "./Location.ts"
import { say } from "./Messages.ts"
import { Moment, Nothing, number, Text, TypeName } from "./Shown.tsx"

const limit = 100
/** With a filter by type so many are counted before anything is done. */
const counted = 1_000

const sequenceOf = (id: string): string => `seq_${id.slice(id.lastIndexOf(":") + 1)}`

const flags = (sink: string, type: string): string =>
  sink === "" && type === ""
    ? "--all"
    : [...(sink === "" ? [] : [`--sink ${plain(sink)}`]), ...(type === "" ? [] : [`--type '${plain(type)}'`])].join(" ")

/** The list holds those of a sink, or of all. */
const countOf = ({ lanes }: Status, sink: string): number =>
  lanes.reduce((sum, { name, deadLetters }) => sum + (sink === "" || name === sink ? deadLetters : 0), 0)

const Row = ({
  letter,
  isChosen,
  onChoose,
}: {
  readonly letter: DeadLetter
  readonly isChosen: boolean
  readonly onChoose: () => void
}) => {
  const { id, lane, type, eventId, at, attempts } = letter
  return (
    <tr>
      <td class="choose">
        <input type="checkbox" checked={isChosen} onChange={onChoose} aria-label={`Choose ${plain(id)}`} />
      </td>
      <td data-label="Since">
        <Moment at={at} />
      </td>
      <td data-label="Sink">
        <Text of={lane} />
      </td>
      <td data-label="Type">
        <strong>
          <TypeName of={type} max={80} />
        </strong>
      </td>
      <td data-label="Event">
        <a href={linkTo("event", sequenceOf(id))}>
          <Text of={eventId === "" ? sequenceOf(id) : eventId} max={60} />
        </a>
      </td>
      <td data-label="Attempts" class="amount">
        {attempts.length}
      </td>
      <td data-label="Why" class="words">
        <Text of={attempts.at(-1)?.message ?? "–"} max={160} />
      </td>
    </tr>
  )
}

export const DeadLetterList = ({ status }: { readonly status: Status }) => {
  const { sink = "", type = "", before = "" } = place.value.query
  const [pattern, setPattern] = useState(type)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const lanes = status.lanes.filter(({ name, deadLetters }) => deadLetters > 0 || name === sink)
  const all = countOf(status, sink)
  // The list follows what comes and goes, but not while somebody chooses.
  const known = useRef(all)
  if (chosen.size === 0 && before === "") known.current = all
  const key = JSON.stringify([sink, type, before, known.current, changes.value])
  const { value, problem } = useLoaded(key, () => admin.deadLetters({ lane: sink, type, before, limit }))
  // The choice belongs to the list
  useEffect(() => setChosen(new Set()), [key])
  const to = (next: Readonly<Record<string, string>>) => linkTo("dead-letters", "", { sink, type, ...next })
  const ids = [...chosen]
  const [first, ...rest] = ids
  const selection: Selection =
    first === undefined
      ? { ...(sink !== "" && { lane: sink }), ...(type !== "" && { type }) }
      : { ids: [first, ...rest] }

  /** Says first how many there are now: of a type they are counted. */
  const act = async (ask: typeof confirmReplay, command: string) => {
    const words =
      first === undefined ? flags(sink, type) : ids.slice(0, 3).map(plain).join(" ") + (ids.length > 3 ? " …" : "")
    if (first !== undefined) return ask(selection, ids.length, `${command} ${words}`)
    if (type === "") return ask(selection, countOf(await admin.status(), sink), `${command} ${words}`)
    const found = await admin.deadLetters({ lane: sink, type, limit: counted })
    return ask(selection, found.length === counted ? `${number(counted)} or more` : found.length, `${command} ${words}`)
  }
  const ask = (question: typeof confirmReplay, command: string): void => {
    act(question, command).catch((error: unknown) =>
      say(error instanceof Refusal ? error.message : String(error), true),
    )
  }
  const toggle = (id: string) =>
    setChosen((now) => {
      const next = new Set(now)
      if (!next.delete(id)) next.add(id)
      return next
    })
  const letters = value ?? []
  const areAll = letters.length > 0 && letters.every(({ id }) => chosen.has(id))
  const which =
    first === undefined ? (sink === "" && type === "" ? "all" : "all of these") : `${number(ids.length)} chosen`
  return (
    <section aria-labelledby="dead-letters">
      <h1 id="dead-letters">Dead letters</h1>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault()
          go(to({ type: pattern, before: "" }))
        }}
      >
        <Choice
          label="Sink"
          value={sink}
          of={lanes.map(({ name }) => name)}
          onChange={(next) => go(to({ sink: next, before: "" }))}
        />
        <TypeField label="Type" value={pattern} onChange={setPattern} placeholder="appointment.**" />
        <button type="submit">Filter</button>
        <span class="spring" />
        <button
          type="button"
          class="primary"
          disabled={letters.length === 0}
          onClick={() => ask(confirmReplay, "relay dlq replay")}
        >
          Replay {which}…
        </button>
        <button
          type="button"
          class="danger"
          disabled={letters.length === 0}
          onClick={() => ask(confirmDrop, "relay dlq drop")}
        >
          Delete {which}…
        </button>
      </form>
      <Problem of={problem} />
      {sink === quarantine && (
        <p class="quiet">
          Deliveries that were signed and could not be routed. Mend the config, reload, then replay them.
        </p>
      )}
      {value !== undefined && letters.length === 0 && (
        <Nothing>No dead letters{sink === "" && type === "" ? "" : " here"}.</Nothing>
      )}
      {letters.length > 0 && (
        <div class="scroll">
          <table class="cards">
            <thead>
              <tr>
                <th scope="col" class="choose">
                  <input
                    type="checkbox"
                    checked={areAll}
                    onChange={() => setChosen(areAll ? new Set() : new Set(letters.map(({ id }) => id)))}
                    aria-label="Choose all on this page"
                  />
                </th>
                <th scope="col">Since</th>
                <th scope="col">Sink</th>
                <th scope="col">Type</th>
                <th scope="col">Event</th>
                <th scope="col" class="amount">
                  Attempts
                </th>
                <th scope="col">Why</th>
              </tr>
            </thead>
            <tbody>
              {letters.map((letter) => (
                <Row
                  key={letter.id}
                  letter={letter}
                  isChosen={chosen.has(letter.id)}
                  onChoose={() => toggle(letter.id)}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <nav class="pages" aria-label="Pages">
        <span class="quiet">
          {number(all)} in all{type === "" ? "" : " types"}
        </span>
        {before !== "" && (
          <a class="button" href={to({ before: "" })}>
            Newest
          </a>
        )}
        {letters.length === limit && (
          <a class="button" href={to({ before: letters.at(-1)?.id ?? "" })}>
            Older
          </a>
        )}
      </nav>
    </section>
  )
}
