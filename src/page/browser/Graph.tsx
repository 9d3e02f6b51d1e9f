/** The last hour: what came in and went out, and below, on a scale of its own, what was refused and failed. */
import type { RelayHistory, Totals } from "../../admin/status/Status.ts"
import { Chart, Key, type Line, rates, spanShown } from "./Chart.tsx"
import { Moment, number, perSecond } from "./Shown.tsx"
import { type Column, Table } from "./Table.tsx"

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

/** Twelve rows of five minutes, for those who can't see the graph. */
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

export const Graph = ({
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
