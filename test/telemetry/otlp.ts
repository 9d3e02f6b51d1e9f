/**
 * A collector that takes nothing on trust: it decodes OTLP's protobuf by the
 * published field numbers (opentelemetry-proto 1.x), refuses every field, wire
 * type and value that the protocol does not know, and keeps what it got.
 */

type Kind = "string" | "bytes" | "bool" | "varint" | "fixed32" | "fixed64" | "double"
type Field = readonly [name: string, kind: Kind | { readonly message: string }, repeated?: "repeated"]

const attributes: Field = ["attributes", { message: "KeyValue" }, "repeated"]

const messages: Readonly<Record<string, Readonly<Record<number, Field>>>> = {
  TracesData: { 1: ["resourceSpans", { message: "ResourceSpans" }, "repeated"] },
  ResourceSpans: {
    1: ["resource", { message: "Resource" }],
    2: ["scopeSpans", { message: "ScopeSpans" }, "repeated"],
    3: ["schemaUrl", "string"],
  },
  LogsData: { 1: ["resourceLogs", { message: "ResourceLogs" }, "repeated"] },
  ResourceLogs: {
    1: ["resource", { message: "Resource" }],
    2: ["scopeLogs", { message: "ScopeLogs" }, "repeated"],
    3: ["schemaUrl", "string"],
  },
  Resource: { 1: attributes, 2: ["dropped", "varint"] },
  ScopeSpans: {
    1: ["scope", { message: "Scope" }],
    2: ["spans", { message: "Span" }, "repeated"],
    3: ["url", "string"],
  },
  ScopeLogs: {
    1: ["scope", { message: "Scope" }],
    2: ["logRecords", { message: "LogRecord" }, "repeated"],
    3: ["url", "string"],
  },
  Scope: { 1: ["name", "string"], 2: ["version", "string"], 3: attributes, 4: ["dropped", "varint"] },
  KeyValue: { 1: ["key", "string"], 2: ["value", { message: "AnyValue" }] },
  AnyValue: {
    1: ["string", "string"],
    2: ["bool", "bool"],
    3: ["int", "varint"],
    4: ["double", "double"],
    5: ["array", { message: "ArrayValue" }],
    6: ["map", { message: "KeyValueList" }],
    7: ["bytes", "bytes"],
  },
  ArrayValue: { 1: ["values", { message: "AnyValue" }, "repeated"] },
  KeyValueList: { 1: ["values", { message: "KeyValue" }, "repeated"] },
  Span: {
    1: ["traceId", "bytes"],
    2: ["spanId", "bytes"],
    3: ["traceState", "string"],
    4: ["parentSpanId", "bytes"],
    5: ["name", "string"],
    6: ["kind", "varint"],
    7: ["start", "fixed64"],
    8: ["end", "fixed64"],
    9: attributes,
    10: ["droppedAttributes", "varint"],
    11: ["events", { message: "Event" }, "repeated"],
    12: ["droppedEvents", "varint"],
    13: ["links", { message: "Link" }, "repeated"],
    14: ["droppedLinks", "varint"],
    15: ["status", { message: "Status" }],
    16: ["flags", "fixed32"],
  },
  Event: { 1: ["time", "fixed64"], 2: ["name", "string"], 3: attributes, 4: ["dropped", "varint"] },
  Link: {
    1: ["traceId", "bytes"],
    2: ["spanId", "bytes"],
    3: ["traceState", "string"],
    4: attributes,
    5: ["dropped", "varint"],
    6: ["flags", "fixed32"],
  },
  Status: { 2: ["message", "string"], 3: ["code", "varint"] },
  LogRecord: {
    1: ["time", "fixed64"],
    2: ["severity", "varint"],
    3: ["severityText", "string"],
    5: ["body", { message: "AnyValue" }],
    6: attributes,
    7: ["dropped", "varint"],
    8: ["flags", "fixed32"],
    9: ["traceId", "bytes"],
    10: ["spanId", "bytes"],
    11: ["observed", "fixed64"],
    12: ["eventName", "string"],
  },
}

type Message = Readonly<Record<string, unknown>>
const utf8 = new TextDecoder("utf-8", { fatal: true })
/** Wire types of protobuf. */
const wires: Readonly<Record<Kind, number>> = {
  varint: 0,
  bool: 0,
  fixed64: 1,
  double: 1,
  string: 2,
  bytes: 2,
  fixed32: 5,
}

const decode = (name: string, bytes: Buffer): Message => {
  let at = 0
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = bytes.readUInt8(at++)
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    throw new Error(`${name}: a number without an end`)
  }
  const chunk = (length: number): Buffer => {
    if (at + length > bytes.length) throw new Error(`${name}: cut off`)
    at += length
    return bytes.subarray(at - length, at)
  }
  const value = (kind: Field[1]): unknown => {
    if (typeof kind === "object") return decode(kind.message, chunk(Number(varint())))
    switch (kind) {
      case "string":
        return utf8.decode(chunk(Number(varint())))
      case "bytes":
        return chunk(Number(varint())).toString("hex")
      case "bool":
        return varint() === 1n
      case "varint":
        return Number(varint())
      case "fixed32":
        return chunk(4).readUInt32LE()
      case "fixed64":
        return chunk(8).readBigUInt64LE()
      case "double":
        return chunk(8).readDoubleLE()
    }
  }
  const message: Record<string, unknown> = {}
  while (at < bytes.length) {
    const tag = Number(varint())
    const field = messages[name]?.[tag >> 3]
    if (field === undefined) throw new Error(`${name} has no field ${tag >> 3}`)
    const [key, kind, repeated] = field
    if ((tag & 7) !== (typeof kind === "object" ? 2 : wires[kind])) throw new Error(`${name}.${key}: wrong wire type`)
    const found = value(kind)
    if (repeated === undefined && key in message) throw new Error(`${name}.${key} came twice`)
    message[key] = repeated === undefined ? found : [...((message[key] as ReadonlyArray<unknown>) ?? []), found]
  }
  return message
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

const id = (value: unknown, bytes: number): string => {
  if (typeof value !== "string" || value.length !== 2 * bytes || /^0*$/.test(value)) throw new Error(`no id: ${value}`)
  return value
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
  const { traceId, spanId, parentSpanId = "", name, kind, start, end, status = {} } = span
  if (typeof name !== "string" || name === "") throw new Error("a span without a name")
  if (typeof start !== "bigint" || typeof end !== "bigint" || start === 0n || end < start) {
    throw new Error(`the span ${name} ends before it begins`)
  }
  if (parentSpanId !== "") id(parentSpanId, 8)
  const { code = 0, message = "" } = status as Message
  return {
    traceId: id(traceId, 16),
    spanId: id(spanId, 8),
    parentSpanId: String(parentSpanId),
    name,
    kind: kind === 2 ? "server" : kind === 4 ? "producer" : "other",
    attributes: plain(span),
    status: (["unset", "ok", "error"] as const)[Number(code)] ?? "unset",
    statusMessage: String(message),
    exceptions: list(span.events).map(plain),
  }
}

/** Listens until the test process ends or `stop`. */
export const collector = () => {
  const spans: Array<Span> = []
  const logs: Array<Log> = []
  const resources: Array<Readonly<Record<string, unknown>>> = []
  const wrong: Array<string> = []
  const requests: Array<Headers> = []
  const take = (path: string, bytes: Buffer): void => {
    if (path === "/base/v1/traces") {
      for (const one of list(decode("TracesData", bytes).resourceSpans)) {
        resources.push(plain(one.resource as Message))
        for (const scope of list(one.scopeSpans)) spans.push(...list(scope.spans).map(spanOf))
      }
    } else if (path === "/base/v1/logs") {
      for (const one of list(decode("LogsData", bytes).resourceLogs)) {
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
        if (request.method !== "POST" || type !== "application/x-protobuf")
          throw new Error(`a ${request.method} of ${type}`)
        take(new URL(request.url).pathname, Buffer.from(await request.arrayBuffer()))
        return new Response(new Uint8Array(), { headers: { "content-type": "application/x-protobuf" } })
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
