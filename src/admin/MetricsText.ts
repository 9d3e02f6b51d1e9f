/** The text format of Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats/ */

export const contentType = "text/plain; version=0.0.4; charset=utf-8"

type Labels = Readonly<Record<string, string | number>>
export type Sample = readonly [labels: Labels, value: number]

const escaped = (value: string | number): string =>
  String(value).replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"')

const labelled = (labels: Labels): string => {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`)
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`
}

const family = (type: "counter" | "gauge" | "histogram", name: string, help: string, lines: ReadonlyArray<string>) =>
  lines.length === 0 ? "" : [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines, ""].join("\n")

/** Formats a metric. A plain number is its only sample, without labels. */
const metric =
  (type: "counter" | "gauge") =>
  (name: string, help: string, samples: number | ReadonlyArray<Sample>): string => {
    const all: ReadonlyArray<Sample> = typeof samples === "number" ? [[{}, samples]] : samples
    const lines = all.map(([labels, value]) => `${name}${labelled(labels)} ${value}`)
    return family(type, name, help, lines)
  }

export const counter = metric("counter")
export const gauge = metric("gauge")

interface Histogram {
  readonly labels: Labels
  /** A count for each bound, and a count above them. */
  readonly counts: ReadonlyArray<number>
  readonly sum: number
}

/** Formats a histogram. `bounds` are the upper ends of the buckets, in the metric's unit. */
export const histogram = (
  name: string,
  help: string,
  bounds: ReadonlyArray<number>,
  histograms: ReadonlyArray<Histogram>,
): string => {
  const lines = histograms.flatMap(({ labels, counts, sum }) => {
    let total = 0
    const buckets = [...bounds, "+Inf"].map((le, index) => {
      total += counts[index] ?? 0
      return `${name}_bucket${labelled({ ...labels, le })} ${total}`
    })
    return [...buckets, `${name}_sum${labelled(labels)} ${sum}`, `${name}_count${labelled(labels)} ${total}`]
  })
  return family("histogram", name, help, lines)
}
