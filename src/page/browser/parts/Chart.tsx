/**
 * Charts over time with a shared axis. Each panel has its own scale, and the cursor
 * points at the same step in all panels.
 */
import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import { Moment } from "./Shown.tsx"

const minute = 60_000
/** A chart shows at least this span, so that the first minutes are more than a line at the edge. */
const spans = [5, 15, 30, 60] as const
const width = 720

/** Consecutive steps of time. */
interface Steps {
  /** Epoch milliseconds at which each step ended, and at which the first began. */
  readonly at: ReadonlyArray<number>
  readonly since: number
  /** By the relay's clock. */
  readonly now: number
}

export interface Line {
  /** Its colour. */
  readonly of: string
  /** A value for each step, or null if the step has none. */
  readonly values: ReadonlyArray<number | null>
  readonly isFilled?: boolean
}

interface Panel {
  readonly lines: ReadonlyArray<Line>
  readonly height: number
  readonly label: string
  /** The upper end of its scale. */
  readonly unit: (top: number) => string
}

/** Minutes that are shown. */
const minutesOf = ({ at: [first], now }: Steps): number => {
  const held = now - (first ?? now)
  return spans.find((minutes) => held <= minutes * minute) ?? 60
}

/** Returns the shown period in words, such as `The last 15 minutes`. */
export const spanShown = (steps: Steps): string => {
  const minutes = minutesOf(steps)
  return minutes === 60 ? "The last hour" : `The last ${minutes} minutes`
}

/** The length of a step in seconds. */
const seconds = ({ at, since }: Steps, index: number): number =>
  Math.max(1, ((at[index] ?? 0) - (at[index - 1] ?? Math.max(since, (at[0] ?? 0) - 10_000))) / 1_000)

/** Counts of each step as rates per second. */
export const rates = (steps: Steps, counts: ReadonlyArray<number>): ReadonlyArray<number> =>
  counts.map((count, index) => count / seconds(steps, index))

/** Returns the smallest number of the series 1, 2, 5, 10, … that is not below the value. */
const ceiling = (value: number): number => {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 0.1)))
  return power * ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10)
}

const x = (at: number, steps: Steps): number =>
  Math.max(0, width - ((steps.now - at) / (minutesOf(steps) * minute)) * width)

/** Draws a horizontal line for each step and connects the lines of consecutive steps. */
const pathOf = (steps: Steps, { values, isFilled }: Line, top: number, height: number, isArea: boolean): string => {
  let path = ""
  let isOpen = false
  for (const [index, at] of steps.at.entries()) {
    const value = values[index] ?? null
    if (value === null) {
      if (isOpen && isArea) path += `V${height}`
      isOpen = false
      continue
    }
    const y = (height - (value / top) * (height - 2)).toFixed(1)
    const from = x(at - seconds(steps, index) * 1_000, steps).toFixed(1)
    if (isOpen) path += `V${y}`
    else path += isArea ? `M${from} ${height}V${y}` : `M${from} ${y}`
    path += `H${x(at, steps).toFixed(1)}`
    isOpen = true
  }
  return isArea && isOpen && isFilled === true ? `${path}V${height}` : path
}

const Drawn = ({
  steps,
  panel: { lines, height, label, unit },
  cursor,
}: {
  readonly steps: Steps
  readonly panel: Panel
  readonly cursor: number | undefined
}) => {
  const top = ceiling(Math.max(0.1, ...lines.flatMap(({ values }) => values.map((value) => value ?? 0))))
  const pointed = cursor === undefined ? undefined : x(steps.at[cursor] ?? 0, steps)
  return (
    <div class="panel">
      <span class="scale" aria-hidden="true">
        {unit(top)}
      </span>
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" height={height} role="img" aria-label={label}>
        {[0.25, 0.5, 0.75].map((share) => (
          <line key={share} class="grid" x1={width * share} x2={width * share} y1={0} y2={height} />
        ))}
        <line class="grid" x1={0} x2={width} y1={height - 0.5} y2={height - 0.5} />
        {lines.map((line) => (
          <g key={line.of} class={line.of}>
            {line.isFilled === true && <path class="area" d={pathOf(steps, line, top, height, true)} />}
            <path class="line" d={pathOf(steps, line, top, height, false)} />
          </g>
        ))}
        {pointed !== undefined && <line class="cursor" x1={pointed} x2={pointed} y1={0} y2={height} />}
      </svg>
    </div>
  )
}

/** `legend` gets the step under the cursor, or the newest step. */
export const Chart = ({
  steps,
  panels,
  legend,
  children,
}: {
  readonly steps: Steps
  readonly panels: ReadonlyArray<Panel>
  readonly legend: (step: number) => ComponentChildren
  readonly children?: ComponentChildren
}) => {
  const [cursor, setCursor] = useState<number | undefined>(undefined)
  const { at, now } = steps
  const minutes = minutesOf(steps)
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect()
    const pointed = now - (1 - (event.clientX - box.left) / box.width) * minutes * minute
    const nearest = at.findIndex((one) => one >= pointed)
    setCursor(at.length === 0 ? undefined : nearest === -1 ? at.length - 1 : nearest)
  }
  return (
    <figure class="graph">
      <figcaption class="legend">{legend(cursor ?? at.length - 1)}</figcaption>
      <div class="panels" onPointerMove={point} onPointerLeave={() => setCursor(undefined)}>
        {panels.map((panel) => (
          <Drawn key={panel.label} {...{ steps, panel, cursor }} />
        ))}
      </div>
      <div class="axis" aria-hidden="true">
        <span>{minutes === 60 ? "an hour ago" : `${minutes} min ago`}</span>
        <span>{cursor === undefined ? "" : <Moment at={at[cursor] ?? now} />}</span>
        <span>now</span>
      </div>
      {children}
    </figure>
  )
}

/** A figure of the legend, in the colour of its line. */
export const Key = ({
  of,
  name,
  figure,
  unit,
  children,
}: {
  readonly of: string
  readonly name: string
  readonly figure: string
  readonly unit: string
  readonly children?: ComponentChildren
}) => (
  <div class={`key ${of}`}>
    <span class="name">{name}</span>
    <span class="figure">
      {figure}
      <small>{unit}</small>
    </span>
    {children !== undefined && <span class="sum">{children}</span>}
  </div>
)
