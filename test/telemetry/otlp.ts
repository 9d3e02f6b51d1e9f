/**
 * A strict collector. It compares OTLP's JSON with the published messages (opentelemetry-proto 1.x, in proto3's JSON
 * mapping with ids in hexadecimal). It refuses every field and form of value that the protocol doesn't know, and keeps
 * everything it received.
 */

type Kind = "string" | "bool" | "double" | "uint32" | "enum" | "int64" | "time" | "traceId" | "spanId" | "base64"
/** The type of a field. Brackets mean a list. */
type Field = Kind | `#${string}` | readonly [`#${string}`]

const attributes = { attributes: ["#KeyValue"], droppedAttributesCount: "uint32" } as const

const messages: Readonly<Record<string, Readonly<Record<string, Field>>>> = {
  TracesData: { resourceSpans: ["#ResourceSpans"] },
  ResourceSpans: { resource: "#Resource", scopeSpans: ["#ScopeSpans"], schemaUrl: "string" },
  ScopeSpans: { scope: "#Scope", spans: ["#Span"], schemaUrl: "string" },
  LogsData: { resourceLogs: ["#ResourceLogs"] },
  ResourceLogs: { resource: "#Resource", scopeLogs: ["#ScopeLogs"], schemaUrl: "string" },
  ScopeLogs: { scope: "#Scope", logRecords: ["#LogRecord"], schemaUrl: "string" },
  Resource: attributes,
  Scope: { name: "string", version: "string", ...attributes },
  KeyValue: { key: "string", value: "#AnyValue" },
  AnyValue: {
    stringValue: "string",
    boolValue: "bool",
    intValue: "int64",
    doubleValue: "double",
    arrayValue: "#ArrayValue",
    kvlistValue: "#KeyValueList",
    bytesValue: "base64",
  },
  ArrayValue: { values: ["#AnyValue"] },
  KeyValueList: { values: ["#KeyValue"] },
  Span: {
    traceId: "traceId",
    spanId: "spanId",
    traceState: "string",
    parentSpanId: "spanId",
    flags: "uint32",
    name: "string",
    kind: "enum",
    startTimeUnixNano: "time",
    endTimeUnixNano: "time",
    ...attributes,
    events: ["#Event"],
    droppedEventsCount: "uint32",
    links: ["#Link"],
    droppedLinksCount: "uint32",
    status: "#Status",
  },
  Event: { timeUnixNano: "time", name: "string", ...attributes },
  Link: { traceId: "traceId", spanId: "spanId", traceState: "string", flags: "uint32", ...attributes },
  Status: { message: "string", code: "enum" },
  LogRecord: {
    timeUnixNano: "time",
    observedTimeUnixNano: "time",
    severityNumber: "enum",
    severityText: "string",
    body: "#AnyValue",
    ...attributes,
    flags: "uint32",
    traceId: "traceId",
    spanId: "spanId",
    eventName: "string",
  },
}

type Message = Readonly<Record<string, unknown>>

const isCount = (value: unknown): boolean => Number.isInteger(value) && Number(value) >= 0 && Number(value) < 2 ** 32
const isId = (value: unknown, bytes: number): boolean =>
  typeof value === "string" && new RegExp(`^(?!0+$)[0-9a-f]{${2 * bytes}}$`).test(value)

const fits: Readonly<Record<Kind, (value: unknown) => boolean>> = {
  string: (value) => typeof value === "string" && value.isWellFormed(),
  bool: (value) => typeof value === "boolean",
  double: (value) => typeof value === "number" || ["NaN", "Infinity", "-Infinity"].includes(String(value)),
  uint32: isCount,
  // OTLP requires the numbers of enums, not their names.
  enum: isCount,
  int64: (value) => Number.isSafeInteger(value) || /^-?\d{1,19}$/.test(typeof value === "string" ? value : ""),
  time: (value) => typeof value === "string" && /^[1-9]\d{17,19}$/.test(value),
  traceId: (value) => isId(value, 16),
  spanId: (value) => isId(value, 8),
  base64: (value) => typeof value === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test(value),
}

/** Throws if a message of this type has a field or a value that it can't have. */
const check = (name: string, message: unknown): Message => {
  if (typeof message !== "object" || message === null || Array.isArray(message)) throw new Error(`${name} is no object`)
  for (const [key, value] of Object.entries(message)) {
    const field = messages[name]?.[key]
    if (field === undefined) throw new Error(`${name} has no field ${key}`)
    if (typeof field !== "string") {
      if (!Array.isArray(value)) throw new Error(`${name}.${key} is no list`)
      for (const one of value) check(field[0].slice(1), one)
    } else if (field.startsWith("#")) check(field.slice(1), value)
    else if (!fits[field as Kind](value)) throw new Error(`${name}.${key} is no ${field}: ${JSON.stringify(value)}`)
  }
  return message as Message
}

const list = (value: unknown): ReadonlyArray<Message> => (value ?? []) as ReadonlyArray<Message>

const plain = (holder: Message): Readonly<Record<string, unknown>> => {
  const all: Record<string, unknown> = {}
  for (const { key, value } of list(holder.attributes)) {
    if (typeof key !== "string" || key === "") throw new Error("an attribute without a key")
    if (key in all) throw new Error(`the attribute ${key} came twice`)
    const [found, more] = Object.values((value ?? {}) as Message)
    if (more !== undefined) throw new Error(`the attribute ${key} has two values`)
    all[key] = found
  }
  return all
}

export interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string
  readonly name: string
  readonly kind: "server" | "producer" | "other"
  readonly attributes: Readonly<Record<string, unknown>>
  readonly status: "unset" | "ok" | "error"
  readonly statusMessage: string
  readonly exceptions: ReadonlyArray<Readonly<Record<string, unknown>>>
}

export interface Log {
  readonly level: unknown
  readonly body: unknown
  readonly attributes: Readonly<Record<string, unknown>>
}

const spanOf = (span: Message): Span => {
  const { traceId, spanId, parentSpanId = "", name, kind, startTimeUnixNano: start, endTimeUnixNano: end } = span
  if (typeof name !== "string" || name === "") throw new Error("a span without a name")
  if (typeof traceId !== "string" || typeof spanId !== "string") throw new Error(`the span ${name} has no ids`)
  if (typeof start !== "string" || typeof end !== "string" || BigInt(end) < BigInt(start)) {
    throw new Error(`the span ${name} ends before it begins`)
  }
  const { code = 0, message = "" } = (span.status ?? {}) as Message
  return {
    traceId,
    spanId,
    parentSpanId: String(parentSpanId),
    name,
    kind: kind === 2 ? "server" : kind === 4 ? "producer" : "other",
    attributes: plain(span),
    status: (["unset", "ok", "error"] as const)[Number(code)] ?? "unset",
    statusMessage: String(message),
    exceptions: list(span.events).map(plain),
  }
}

/** Listens until `stop` is called or the test process ends. */
export const collector = () => {
  const spans: Array<Span> = []
  const logs: Array<Log> = []
  const resources: Array<Readonly<Record<string, unknown>>> = []
  const wrong: Array<string> = []
  const requests: Array<Headers> = []
  const take = (path: string, body: unknown): void => {
    if (path === "/base/v1/traces") {
      for (const one of list(check("TracesData", body).resourceSpans)) {
        resources.push(plain(one.resource as Message))
        for (const scope of list(one.scopeSpans)) spans.push(...list(scope.spans).map(spanOf))
      }
    } else if (path === "/base/v1/logs") {
      for (const one of list(check("LogsData", body).resourceLogs)) {
        for (const scope of list(one.scopeLogs)) {
          for (const record of list(scope.logRecords)) {
            const [body] = Object.values((record.body ?? {}) as Message)
            logs.push({ level: record.severityText, body, attributes: plain(record) })
          }
        }
      }
    } else throw new Error(`nothing is taken at ${path}`)
  }
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) => {
      requests.push(request.headers)
      try {
        const type = request.headers.get("content-type")
        if (request.method !== "POST" || type !== "application/json") throw new Error(`a ${request.method} of ${type}`)
        take(new URL(request.url).pathname, await request.json())
        return Response.json({})
      } catch (error) {
        wrong.push(String(error))
        return new Response(null, { status: 400 })
      }
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}/base`,
    spans,
    logs,
    resources,
    wrong,
    requests,
    stop: () => server.stop(true),
  }
}
