/**
 * Keys whose name has changed. A config with the old name is read as before, with
 * a warning that gives the new one.
 */
import { error, type Finding, type Path, warning } from "../diagnostics/Source.ts"

interface Renamed<A> {
  readonly value: A
  readonly findings: ReadonlyArray<Finding>
}

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const deliveryKeys: Fields = { maxParked: "maxRetrying" }

/** The `delivery` of the config, or of a sink. */
const inDelivery = (part: Fields, path: Path): Renamed<Fields> => {
  const { delivery } = part
  if (!isFields(delivery)) return { value: part, findings: [] }
  const findings: Array<Finding> = []
  const entries = Object.entries(delivery).map(([key, value]) => {
    const name = Object.hasOwn(deliveryKeys, key) ? String(deliveryKeys[key]) : key
    if (name === key) return [key, value] as const
    const at = [...path, "delivery", key]
    findings.push(
      Object.hasOwn(delivery, name)
        ? error(at, `"${key}" is the old name of "${name}", which is here as well`, "take this key out", "key")
        : warning(at, `"${key}" is now called "${name}"`, "rename the key; it works the same", "key"),
    )
    return [name, value] as const
  })
  return { value: { ...part, delivery: Object.fromEntries(entries) }, findings }
}

/** The config with today's names. */
export const rename = (config: Fields): Renamed<Fields> => {
  const { value, findings } = inDelivery(config, [])
  if (!isFields(value.sinks)) return { value, findings }
  const sinks = Object.entries(value.sinks).map(([name, sink]) => {
    const renamed = isFields(sink) ? inDelivery(sink, ["sinks", name]) : { value: sink, findings: [] }
    return { entry: [name, renamed.value] as const, findings: renamed.findings }
  })
  return {
    value: { ...value, sinks: Object.fromEntries(sinks.map(({ entry }) => entry)) },
    findings: [...findings, ...sinks.flatMap((sink) => sink.findings)],
  }
}
