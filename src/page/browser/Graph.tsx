/** The last hour: what came in and went out, and below, on a scale of its own, what was refused and failed. */
import { useState } from "preact/hooks"
import type { History, Totals } from "../../admin/Api.ts"
import { Moment, number } from "./Shown.tsx"
import { type Column, Table } from "./Table.tsx"

const minute = 60_000
/** The graph shows at least this span, so that the first minutes are more than a line at the edge. */
const spans = [5, 15, 30, 60] as const
const width = 720
const series = ["received", "delivered", "refused", "failed"] as const
type Series = (typeof series)[number]

const words = { received: "In", delivered: "Out", refused: "Refused", failed: "Failed" } as const
const meaning = {
  received: "deliveries accepted",
  delivered: "events that sinks took",
  refused: "requests refused",
  failed: "failed attempts",
} as const

interface Plot {
  readonly history: History
  readonly now: number
}

/** Milliseconds that are shown. */
const spanOf = ({ history, now }: Plot): number => {
  const held = now - (history.at[0] ?? now)
  return minute * (spans.find((minutes) => held <= minutes * minute) ?? 60)
}

/** `The last 15 minutes`: what the graph shows. */
export const spanShown = (plot: Plot): string => {
  const minutes = spanOf(plot) / minute
  return minutes === 60 ? "The last hour" : `The last ${minutes} minutes`
}

/** Seconds that a step took. */
const seconds = ({ at }: History, index: number): number =>
  index === 0 ? 10 : Math.max(1, ((at[index] ?? 0) - (at[index - 1] ?? 0)) / 1_000)

const rate = (history: History, of: Series, index: number): number =>
  (history[of][index] ?? 0) / seconds(history, index)

const total = (history: History, of: Series): number => history[of].reduce((sum, count) => sum + count, 0)

/** Few digits: `0.4`, `12`, `1,234`. */
export const perSecond = (value: number): string =>
  value === 0 ? "0" : value < 10 ? value.toFixed(1) : number(Math.round(value))

/** The next of 1, 2, 5, 10, … above. */
const ceiling = (value: number): number => {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 0.1)))
  return power * ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10)
}

const x = (at: number, plot: Plot): number => Math.max(0, width - ((plot.now - at) / spanOf(plot)) * width)

/** A step for each of the history's, at its rate. */
const line = (plot: Plot, of: Series, top: number, height: number): string =>
  plot.history.at
    .map((at, index) => {
      const y = (height - (rate(plot.history, of, index) / top) * (height - 2)).toFixed(1)
      const from = x(at - seconds(plot.history, index) * 1_000, plot).toFixed(1)
      return `${index === 0 ? "M" : "L"}${from} ${y}H${x(at, plot).toFixed(1)}`
    })
    .join("")

const area = (plot: Plot, of: Series, top: number, height: number): string => {
  const { at } = plot.history
  if (at.length === 0) return ""
  const first = x((at[0] ?? 0) - seconds(plot.history, 0) * 1_000, plot).toFixed(1)
  return `${line(plot, of, top, height)}V${height}H${first}Z`
}

const Panel = ({
  plot,
  filled,
  lined,
  height,
  cursor,
  label,
}: {
  readonly plot: Plot
  readonly filled: Series
  readonly lined: Series
  readonly height: number
  readonly cursor: number | undefined
  readonly label: string
}) => {
  const { history } = plot
  const rates = [filled, lined].flatMap((of) => history.at.map((_, index) => rate(history, of, index)))
  const top = ceiling(Math.max(0.1, ...rates))
  return (
    <div class="panel">
      <span class="scale" aria-hidden="true">
        {perSecond(top)}/s
      </span>
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" height={height} role="img" aria-label={label}>
        {[0.25, 0.5, 0.75].map((share) => (
          <line key={share} class="grid" x1={width * share} x2={width * share} y1={0} y2={height} />
        ))}
        <line class="grid" x1={0} x2={width} y1={height - 0.5} y2={height - 0.5} />
        <path class={`area ${filled}`} d={area(plot, filled, top, height)} />
        {[filled, lined]
          .filter((of) => total(history, of) > 0)
          .map((of) => (
            <path key={of} class={`line ${of}`} d={line(plot, of, top, height)} />
          ))}
        {cursor !== undefined && (
          <line
            class="cursor"
            x1={x(history.at[cursor] ?? 0, plot)}
            x2={x(history.at[cursor] ?? 0, plot)}
            y1={0}
            y2={height}
          />
        )}
      </svg>
    </div>
  )
}

type Sums = { readonly at: number } & Record<Series, number>

const columns: ReadonlyArray<Column<Sums>> = [
  { title: "Five minutes to", cell: ({ at }) => <Moment at={at} /> },
  ...series.map((of) => ({ title: words[of], kind: "amount", cell: (row: Sums) => number(row[of]) })),
]

/** Twelve rows of five minutes, for those who can't see the graph. */
const rows = ({ at, ...counts }: History): ReadonlyArray<Sums> => {
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

export const Graph = ({ history, totals, now }: Plot & { readonly totals: Totals }) => {
  const [cursor, setCursor] = useState<number | undefined>(undefined)
  const plot = { history, now }
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect()
    const at = now - (1 - (event.clientX - box.left) / box.width) * spanOf(plot)
    const nearest = history.at.findIndex((one) => one >= at)
    setCursor(history.at.length === 0 ? undefined : nearest === -1 ? history.at.length - 1 : nearest)
  }
  const minutes = spanOf(plot) / minute
  const isHour = now - history.since > 59 * minute
  const counted = isHour ? (
    "in the last hour"
  ) : (
    <>
      since <Moment at={history.since} />
    </>
  )
  const shown = cursor ?? history.at.length - 1
  const said = (of: Series) => `${number(total(history, of))} ${meaning[of]}`
  return (
    <figure class="graph">
      <figcaption class="legend">
        {series.map((of) => (
          <div key={of} class={`key ${of}`}>
            <span class="name">{words[of]}</span>
            <span class="figure">
              {perSecond(rate(history, of, shown))}
              <small>/s</small>
            </span>
            <span class="sum" title={`${number(totals[of])} since the start`}>
              {number(total(history, of))} {counted}
            </span>
          </div>
        ))}
      </figcaption>
      <div class="panels" onPointerMove={point} onPointerLeave={() => setCursor(undefined)}>
        <Panel
          {...{ plot, cursor }}
          filled="received"
          lined="delivered"
          height={132}
          label={`${isHour ? "The last hour" : "So far"}: ${said("received")}, ${said("delivered")}`}
        />
        <Panel
          {...{ plot, cursor }}
          filled="refused"
          lined="failed"
          height={44}
          label={`${isHour ? "The last hour" : "So far"}: ${said("refused")}, ${said("failed")}`}
        />
      </div>
      <div class="axis" aria-hidden="true">
        <span>{minutes === 60 ? "an hour ago" : `${minutes} min ago`}</span>
        <span>{cursor === undefined ? "" : <Moment at={history.at[cursor] ?? now} />}</span>
        <span>now</span>
      </div>
      <details class="as-table">
        <summary>As a table</summary>
        <Table rows={rows(history)} columns={columns} keyOf={({ at }) => at} hasHeading />
      </details>
    </figure>
  )
}
