/** Dead letters and the quarantine: why each could not be delivered, and what to do with them. */
import { useEffect, useRef, useState } from "preact/hooks"
import type { Selection } from "../../admin/api/DeadLetterApi.ts"
import { letterWords } from "../../admin/replay/ReplayCommand.ts"
import type { Status } from "../../admin/status/Status.ts"
import { quarantine } from "../../event/Event.ts"
import { relayCommand } from "../../formats/Terminal.ts"
import { admin, problemOf } from "./AdminCalls.ts"
import { changes, confirmDrop, confirmReplay } from "./DeadLetterActions.tsx"
import { DeadLetterTable } from "./DeadLetterTable.tsx"
import { Choice, Filters, TypeField } from "./Fields.tsx"
import { Problem, useLoaded } from "./Loading.tsx"
import { go, linkTo, place } from "./Location.ts"
import { say } from "./Messages.ts"
import { Nothing, number } from "./Shown.tsx"
import { Pager } from "./Table.tsx"

const limit = 100
/** With a filter by type so many are counted before anything is done. */
const counted = 1_000

/** The list holds those of a sink, or of all. */
const countOf = ({ lanes }: Status, sink: string): number =>
  lanes.reduce((sum, { name, deadLetters }) => sum + (sink === "" || name === sink ? deadLetters : 0), 0)

/** Selects the dead letters that are chosen, or all that the filter shows. */
const selectionOf = ([first, ...rest]: ReadonlyArray<string>, sink: string, type: string): Selection =>
  first === undefined
    ? { ...(sink !== "" && { sink }), ...(type !== "" && { types: [type] }) }
    : { ids: [first, ...rest] }

/** How many there are now; those of a type are counted. */
const amountOf = async (selection: Selection): Promise<number | string> => {
  if ("ids" in selection) return selection.ids.length
  const { sink = "", types: [type] = [] } = selection
  if (type === undefined) return countOf(await admin.status(), sink)
  const { length } = await admin.deadLetters({ sink, types: type, limit: counted })
  return length === counted ? `${number(counted)} or more` : length
}

export const DeadLetterList = ({ status }: { readonly status: Status }) => {
  const { sink = "", type = "", before = "" } = place.value.query
  const [pattern, setPattern] = useState(type)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const all = countOf(status, sink)
  // The list follows what comes and goes, but not while somebody chooses.
  const known = useRef(all)
  if (chosen.size === 0 && before === "") known.current = all
  const key = JSON.stringify([sink, type, before, known.current, changes.value])
  const { value: letters, problem } = useLoaded(key, () => admin.deadLetters({ sink, types: type, before, limit }))
  // The choice belongs to the list
  useEffect(() => setChosen(new Set()), [key])
  const to = (next: Readonly<Record<string, string>>) => linkTo("dead-letters", "", { sink, type, ...next })
  const selection = selectionOf([...chosen], sink, type)
  const isFiltered = sink !== "" || type !== ""
  const ask = (question: typeof confirmReplay, what: string) => () => {
    amountOf(selection).then(
      (amount) => question(selection, amount, relayCommand("dlq", what, ...letterWords(selection))),
      (error: unknown) => say(problemOf(error), true),
    )
  }
  const which = chosen.size > 0 ? `${number(chosen.size)} chosen` : isFiltered ? "all of these" : "all"
  const isEmpty = letters === undefined || letters.length === 0
  return (
    <section aria-labelledby="dead-letters">
      <h1 id="dead-letters">Dead letters</h1>
      <Filters onSubmit={() => go(to({ type: pattern }))}>
        <Choice
          label="Sink"
          value={sink}
          of={status.lanes.flatMap(({ name, deadLetters }) => (deadLetters > 0 || name === sink ? name : []))}
          onChange={(next) => go(to({ sink: next }))}
        />
        <TypeField value={pattern} onChange={setPattern} />
        <button type="submit">Filter</button>
        <span class="spring" />
        <button type="button" class="primary" disabled={isEmpty} onClick={ask(confirmReplay, "replay")}>
          Replay {which}…
        </button>
        <button type="button" class="danger" disabled={isEmpty} onClick={ask(confirmDrop, "drop")}>
          Delete {which}…
        </button>
      </Filters>
      <Problem of={problem} />
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
