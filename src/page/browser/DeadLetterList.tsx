/** Shows dead letters and the quarantine, with the reason of each failure and the possible actions. */

import { useEffect, useRef, useState } from "preact/hooks"
import type { DeadLetter, Selection } from "../../admin/api/DeadLetterApi.ts"
import type { LetterSelection } from "../../admin/api/EventSelection.ts"
import { letterWords } from "../../admin/replay/ReplayCommand.ts"
import type { Status } from "../../admin/status/Status.ts"
import { quarantine } from "../../event/Event.ts"
import { plain, relayCommand } from "../../formats/Texts.ts"
import { changes, confirmDrop, confirmReplay } from "./parts/Actions.tsx"
import { admin } from "./parts/AdminCalls.ts"
import { anyTime, Button, Choice, Filters, TimeFields, TypeField, timesOf, useForm } from "./parts/Fields.tsx"
import { useLatest, useLoaded, Waiting } from "./parts/Loading.tsx"
import { go, linkTo, place } from "./parts/Location.ts"
import { say } from "./parts/Messages.ts"
import { EventLink, Message, Moment, Name, Nothing, number, TypeName } from "./parts/Shown.tsx"
import { type Column, Pager, Table } from "./parts/Table.tsx"

const sequenceOf = ({ id }: DeadLetter): string => id.slice(id.lastIndexOf(":") + 1)

const columns: ReadonlyArray<Column<DeadLetter>> = [
  { title: "Since", cell: ({ at }) => <Moment at={at} /> },
  { title: "Sink", cell: ({ lane }) => <Name of={lane} /> },
  { title: "Type", kind: "name", cell: ({ type }) => <TypeName of={type} max={80} isStrong /> },
  {
    title: "Event",
    cell: (letter) => (
      <>
        <EventLink id={letter.eventId} sequence={sequenceOf(letter)} />
        {letter.erased !== undefined && <small> erased</small>}
      </>
    ),
  },
  { title: "Account", cell: ({ accountId }) => (accountId === "" ? undefined : <Name of={accountId} />) },
  { title: "Attempts", kind: "amount", cell: ({ attempts }) => attempts.length },
  { title: "Why", kind: "words", cell: ({ attempts }) => <Message of={attempts.at(-1)?.message ?? "–"} max={160} /> },
]

/** A page of dead letters with checkboxes. */
const DeadLetterTable = ({
  letters,
  chosen,
  onChoose,
}: {
  readonly letters: ReadonlyArray<DeadLetter>
  /** The ids of the selected dead letters. */
  readonly chosen: ReadonlySet<string>
  readonly onChoose: (ids: ReadonlySet<string>) => void
}) => {
  const toggle = (id: string) => {
    const next = new Set(chosen)
    if (!next.delete(id)) next.add(id)
    onChoose(next)
  }
  const areAll = letters.every(({ id }) => chosen.has(id))
  const choice: Column<DeadLetter> = {
    title: "Choose",
    kind: "choose",
    isUntitled: true,
    cell: ({ id }) => (
      <input type="checkbox" checked={chosen.has(id)} onChange={() => toggle(id)} aria-label={`Choose ${plain(id)}`} />
    ),
  }
  return (
    <>
      <label class="choose-all">
        <input
          type="checkbox"
          checked={areAll}
          onChange={() => onChoose(new Set(areAll ? [] : letters.map(({ id }) => id)))}
        />{" "}
        Choose all on this page
      </label>
      <Table rows={letters} columns={[choice, ...columns]} keyOf={({ id }) => id} />
    </>
  )
}

const limit = 100

/** The list shows dead letters of one sink or of all sinks. */
const countOf = ({ lanes }: Status, sink: string): number =>
  lanes.reduce((sum, { name, deadLetters }) => sum + (sink === "" || name === sink ? deadLetters : 0), 0)

/** Selects the dead letters that the filter shows. */
const filterOf = ({ sink = "", type = "", ...query }: Readonly<Record<string, string>>): LetterSelection => ({
  ...(sink !== "" && { sink }),
  ...(type !== "" && { types: [type] }),
  ...timesOf(query),
})

/** The maximum number of dead letters that are previewed if no type and no time is given. More would take too long. */
const mostPreviewed = 10_000

/** Previews a replay of dead letters, or counts those to drop. A replay leaves out erased events and those that no route takes. */
const previewOf = async (selection: Selection, what: "replay" | "drop") => {
  if ("ids" in selection) return what === "drop" ? { count: selection.ids.length } : admin.previewDeadLetters(selection)
  const { sink = "", ...filter } = selection
  const all = Object.keys(filter).length === 0 ? countOf(await admin.status(), sink) : undefined
  if (all !== undefined && (what === "drop" || all > mostPreviewed)) return { count: all }
  const preview = await admin.previewDeadLetters(selection)
  const { count, erased, stayed } = preview
  return what === "replay" ? preview : { count: stayed.reduce((sum, { count }) => sum + count, count + erased) }
}

export const DeadLetterList = ({ status }: { readonly status: Status }) => {
  const { before = "", ...query } = place.value.query
  const { sink = "", type = "" } = query
  const filter = filterOf(query)
  const { form, field } = useForm({ type: "", ...anyTime, ...query })
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const all = countOf(status, sink)
  // The list reloads when dead letters come and go, but not while some are selected.
  const known = useRef(all)
  if (chosen.size === 0 && before === "") known.current = all
  const question = JSON.stringify([filter, before])
  const revision = `${known.current} ${changes.value}`
  const list = useLoaded(question, () => admin.deadLetters({ ...filter, types: type, before, limit }), revision)
  const letters = list.value
  // The choice belongs to the list
  useEffect(() => setChosen(new Set()), [question, revision])
  const to = (next: Readonly<Record<string, string>>) => linkTo("dead-letters", "", { ...query, ...next })
  const [first, ...rest] = chosen
  const selection: Selection = first === undefined ? filter : { ids: [first, ...rest] }
  const isFiltered = Object.keys(filter).length > 0
  const latest = useLatest(question)
  const ask = (confirm: typeof confirmReplay, what: "replay" | "drop") => () =>
    latest(
      previewOf(selection, what),
      (preview) => confirm(selection, preview, relayCommand("dlq", what, ...letterWords(selection))),
      (problem) => say(problem, true),
    )
  const which = chosen.size > 0 ? `${number(chosen.size)} chosen` : isFiltered ? "all of these" : "all"
  const isEmpty = letters === undefined || letters.length === 0
  return (
    <section aria-labelledby="dead-letters">
      <h1 id="dead-letters">Dead letters</h1>
      <Filters onSubmit={() => go(to({ ...form, sink }))}>
        <Choice
          label="Sink"
          value={sink}
          of={status.lanes.flatMap(({ name, deadLetters }) => (deadLetters > 0 || name === sink ? name : []))}
          onChange={(next) => go(to({ ...form, sink: next }))}
        />
        <TypeField {...field("type")} />
        <TimeFields field={field} />
        <button type="submit">Filter</button>
        <span class="spring" />
        <Button text={`Replay ${which}…`} class="primary" disabled={isEmpty} onClick={ask(confirmReplay, "replay")} />
        <Button text={`Delete ${which}…`} class="danger" disabled={isEmpty} onClick={ask(confirmDrop, "drop")} />
      </Filters>
      <Waiting of={list} />
      {sink === quarantine && (
        <p class="quiet">
          Deliveries that were signed and could not be routed. Fix the config, reload it, then replay them.
        </p>
      )}
      {letters?.length === 0 && <Nothing>No dead letters{isFiltered ? " here" : ""}.</Nothing>}
      {!isEmpty && <DeadLetterTable {...{ letters, chosen }} onChoose={setChosen} />}
      <Pager
        newest={before === "" ? undefined : to({})}
        older={letters?.length === limit ? to({ before: letters.at(-1)?.id ?? "" }) : undefined}
      >
        {number(all)} in all{type === "" ? "" : " types"}
      </Pager>
    </section>
  )
}
