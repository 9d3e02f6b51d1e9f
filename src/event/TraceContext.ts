/** The W3C Trace Context of a delivery. It is stored with the event and sent to the sinks. */
export interface TraceContext {
  /** `00-`, 32 hexadecimal digits of the trace, 16 digits of its last span, and flags. */
  readonly traceparent: string
  /** Data that other tracers added; absent if there is none. */
  readonly tracestate?: string
}

const form = /^([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const longestState = 512
const isState = /^[\x20-\x7e]+$/

export interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
}

/**
 * Returns the span of a traceparent, or `undefined` if it is invalid. In later
 * versions, only the fields of version 00 are read.
 */
export const spanOf = (traceparent: string): Span | undefined => {
  const [, version, traceId, spanId, flags = "", more] = form.exec(traceparent) ?? []
  if (traceId === undefined || spanId === undefined) return undefined
  if (version === "ff" || (version === "00" && more !== undefined)) return undefined
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

export const contextOf = ({ traceId, spanId, sampled }: Span, tracestate?: string): TraceContext => ({
  traceparent: `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`,
  ...(tracestate !== undefined && { tracestate }),
})

/** Returns the tracestate if it may be passed on. */
export const stateOf = (tracestate: string | null): string | undefined =>
  tracestate !== null && tracestate.length <= longestState && isState.test(tracestate) ? tracestate : undefined

type Headers = ReadonlyArray<readonly [name: string, value: string]>
const none: Headers = []

/** Returns the headers with which a receiver joins the event's trace, or none if the event has no trace. */
export const traceHeaders = (event: { readonly trace?: TraceContext }): Headers => {
  if (event.trace === undefined) return none
  const { traceparent, tracestate } = event.trace
  const parent = ["traceparent", traceparent] as const
  return tracestate === undefined ? [parent] : [parent, ["tracestate", tracestate]]
}
