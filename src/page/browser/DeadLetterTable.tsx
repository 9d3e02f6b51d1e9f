/** A page of dead letters, of which some can be chosen. */
import type { DeadLetter } from "../../admin/api/DeadLetterApi.ts"
import { plain } from "../../formats/Terminal.ts"
import { EventLink, Message, Moment, Name, TypeName } from "./Shown.tsx"
import { type Column, Table } from "./Table.tsx"

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

export const DeadLetterTable = ({
  letters,
  chosen,
  onChoose,
}: {
  readonly letters: ReadonlyArray<DeadLetter>
  /** The ids of those that are chosen. */
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
