/** Shows who changed what: the operations of the audit log, newest first. */
import type { AuditPage } from "../../admin/api/Api.ts"
import { admin } from "./parts/AdminCalls.ts"
import { useLoaded, Waiting } from "./parts/Loading.tsx"
import { linkTo, place } from "./parts/Location.ts"
import { Message, Moment, Nothing, Pill, Text } from "./parts/Shown.tsx"
import { type Column, Pager, Table } from "./parts/Table.tsx"

const tones = { done: "good", refused: "warn", failed: "bad" } as const

const columns: ReadonlyArray<Column<AuditPage["records"][number]>> = [
  { title: "Time", cell: ({ at }) => <Moment at={at} /> },
  { title: "Who", cell: ({ who }) => <Text of={who} max={100} /> },
  {
    title: "By",
    cell: ({ by, relay }) => (
      <>
        {by}
        {relay !== "" && (
          <>
            , at <Text of={relay} max={100} />
          </>
        )}
      </>
    ),
  },
  { title: "What", cell: ({ what }) => what },
  { title: "On", kind: "words", cell: ({ on }) => (on === "" ? undefined : <Text of={on} max={160} />) },
  {
    title: "Result",
    kind: "words",
    cell: ({ result, note }) => (
      <>
        <Pill tone={tones[result]}>{result}</Pill> <Message of={note} max={160} />
      </>
    ),
  },
]

export const AuditLog = () => {
  const { before = "" } = place.value.query
  const page = useLoaded(before, () => admin.audit(before))
  const { value, isBusy } = page
  return (
    <section aria-labelledby="audit">
      <h1 id="audit">Audit</h1>
      <p class="quiet">What was changed by the admin API, the command line or this page.</p>
      <Waiting of={page} />
      {value !== undefined && value.records.length > 0 && (
        <Table rows={value.records} keyOf={({ id }) => id} {...{ columns, isBusy }} />
      )}
      {value?.records.length === 0 && <Nothing>No operation is recorded.</Nothing>}
      {(before !== "" || (value !== undefined && value.records.length > 0)) && (
        <Pager
          newest={before === "" ? undefined : linkTo("audit")}
          older={value?.next === undefined ? undefined : linkTo("audit", "", { before: String(value.next) })}
        >
          {before === "" ? "The newest" : "Older operations"}
        </Pager>
      )}
    </section>
  )
}
