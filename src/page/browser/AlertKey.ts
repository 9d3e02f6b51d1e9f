/** The incident that an event belongs to at PagerDuty. */

const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? { ...value } : {}

const parsed = (body: unknown): unknown => {
  if (typeof body !== "string") return body
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

/** Returns the `dedup_key` of the payload for a sink, or `undefined` if it has none. */
export const dedupKeyOf = (payload: unknown): string | undefined => {
  const { dedup_key: key } = fieldsOf(parsed(fieldsOf(payload).body))
  return typeof key === "string" ? key : undefined
}
