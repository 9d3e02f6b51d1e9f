/** SNS, SQS, EventBridge or S3 as far as a sink asks them; answers otherwise while a condition holds. */

import { numberOf } from "../faults/relay/Traffic.ts"
import { linesOf } from "../parts/Buckets.ts"

export type AwsName = "sns" | "sqs" | "eventbridge" | "s3"

/** An entry of a batch. */
interface Entry {
  readonly id: string
  readonly number: number
}

/** A request as a scenario sees it. */
export interface Asked {
  readonly numbers: ReadonlyArray<number>
  /** The access key that signed it. */
  readonly key: string
  /** The time that it was signed for, in epoch milliseconds. */
  readonly signedAt: number
}

/** The service's words about an entry that it refuses. */
export interface Refusal {
  readonly code: string
  readonly message: string
  readonly isSenders: boolean
}

const isoOf = (basic: string): string => basic.replace(/^(....)(..)(..T..)(..)(..Z)$/, "$1-$2-$3:$4:$5")

const member = /^PublishBatchRequestEntries\.member\.(\d+)\.(Id|Message)$/

const entriesOf = (name: AwsName, bytes: Uint8Array): ReadonlyArray<Entry> => {
  const numberIn = (text: string) => numberOf(/\bevt_\d+\b/.exec(text)?.[0])
  if (name === "s3") {
    const lines = bytes.length === 0 ? [] : linesOf({ name: "object.gz", bytes })
    return lines.map((line, index) => ({ id: String(index), number: numberIn(Buffer.from(line).toString()) }))
  }
  const body = Buffer.from(bytes).toString()
  if (name !== "sns") {
    const { Entries = [] }: { readonly Entries?: ReadonlyArray<{ readonly Id?: string }> } = JSON.parse(body)
    return Entries.map((entry, index) => ({ id: entry.Id ?? String(index), number: numberIn(JSON.stringify(entry)) }))
  }
  const fields = new Map<string, Record<string, string>>()
  for (const [key, value] of new URLSearchParams(body)) {
    const [, at = "", field = ""] = member.exec(key) ?? []
    if (field !== "") fields.set(at, { ...fields.get(at), [field]: value })
  }
  return [...fields.values()].map(({ Id = "", Message = "" }) => ({ id: Id, number: numberIn(Message) }))
}

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")

const errorOfS3 = (code: string, message: string): string =>
  `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>${escaped(message)}</Message><RequestId>r</RequestId></Error>`

/** The answer of a service to a request that it refuses as a whole. */
export const refused = (name: AwsName, status: number, code: string, message: string, headers = {}): Response => {
  if (name === "s3") {
    return new Response(errorOfS3(code, message), {
      status,
      headers: { "content-type": "application/xml", ...headers },
    })
  }
  return name === "sns"
    ? new Response(
        `<ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><Error><Type>Sender</Type><Code>${code}</Code><Message>${escaped(message)}</Message></Error><RequestId>r</RequestId></ErrorResponse>`,
        { status, headers: { "content-type": "text/xml", ...headers } },
      )
    : Response.json(
        { __type: `com.amazonaws.${name}#${code}`, message },
        { status, headers: { "content-type": "application/x-amz-json-1.0", ...headers } },
      )
}

const attributes =
  "<GetTopicAttributesResponse><GetTopicAttributesResult><Attributes><entry><key>TopicArn</key><value>t</value></entry></Attributes></GetTopicAttributesResult></GetTopicAttributesResponse>"

const list = "<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>"

/** The answer to a request without events. */
const looked = (name: AwsName): Response => {
  if (name === "s3") return new Response(list, { headers: { "content-type": "application/xml" } })
  return name === "sns"
    ? new Response(attributes, { headers: { "content-type": "text/xml" } })
    : Response.json({ Attributes: { MaximumMessageSize: "1048576" }, Name: "events", Arn: "arn" })
}

const accepted = (name: AwsName, entries: ReadonlyArray<Entry>, refusalOf: (number: number) => Refusal | undefined) => {
  const verdicts = entries.map(({ id, number }) => ({ id, refusal: refusalOf(number) }))
  if (name === "eventbridge") {
    const Entries = verdicts.map(({ refusal }) =>
      refusal === undefined ? { EventId: "e" } : { ErrorCode: refusal.code, ErrorMessage: refusal.message },
    )
    return Response.json({ FailedEntryCount: Entries.filter((_) => "ErrorCode" in _).length, Entries })
  }
  if (name === "sqs") {
    const Successful = verdicts.flatMap(({ id, refusal }) =>
      refusal === undefined ? [{ Id: id, MessageId: "m" }] : [],
    )
    const Failed = verdicts.flatMap(({ id, refusal }) =>
      refusal === undefined
        ? []
        : [{ Id: id, Code: refusal.code, Message: refusal.message, SenderFault: refusal.isSenders }],
    )
    return Response.json({ Successful, Failed })
  }
  const members = (isGood: boolean) =>
    verdicts
      .filter(({ refusal }) => (refusal === undefined) === isGood)
      .map(({ id, refusal }) => {
        const more =
          refusal === undefined
            ? "<MessageId>m</MessageId>"
            : `<Code>${refusal.code}</Code><Message>${escaped(refusal.message)}</Message><SenderFault>${refusal.isSenders}</SenderFault>`
        return `<member><Id>${id}</Id>${more}</member>`
      })
      .join("")
  return new Response(
    `<PublishBatchResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><PublishBatchResult><Failed>${members(false)}</Failed><Successful>${members(true)}</Successful></PublishBatchResult></PublishBatchResponse>`,
    { headers: { "content-type": "text/xml" } },
  )
}

export class AwsService {
  readonly numbers: Array<number> = []
  /** Answers in the service's place; `undefined` lets it answer. */
  answer: (asked: Asked) => Response | undefined = () => undefined
  /** Refuses entries of a batch. */
  refuses: (number: number) => Refusal | undefined = () => undefined
  readonly port: number
  readonly #name: AwsName
  readonly #objects = new Set<string>()
  readonly #server: Bun.Server<undefined>

  constructor(name: AwsName) {
    this.#name = name
    this.#server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      idleTimeout: 0,
      fetch: async (request) => this.#take(request, await request.bytes()),
    })
    this.port = this.#server.port ?? 0
  }

  close(): Promise<void> {
    return this.#server.stop(true)
  }

  #take({ headers, url }: Request, body: Uint8Array): Response {
    const entries = entriesOf(this.#name, body)
    const own = this.answer({
      numbers: entries.map(({ number }) => number),
      key: /Credential=([^/]+)/.exec(headers.get("authorization") ?? "")?.[1] ?? "",
      signedAt: Date.parse(isoOf(headers.get("x-amz-date") ?? "")),
    })
    if (own !== undefined) return own
    if (entries.length === 0) return looked(this.#name)
    if (this.#name === "s3") return this.#store(new URL(url).pathname, entries)
    const refusals = new Map(entries.map(({ number }) => [number, this.refuses(number)]))
    for (const { number } of entries) if (refusals.get(number) === undefined) this.numbers.push(number)
    return accepted(this.#name, entries, (number) => refusals.get(number))
  }

  /** Stores an object of S3. A repetition takes its place. */
  #store(path: string, entries: ReadonlyArray<Entry>): Response {
    for (const { number } of entries) {
      const refusal = this.refuses(number)
      if (refusal !== undefined) return refused("s3", refusal.isSenders ? 400 : 500, refusal.code, refusal.message)
    }
    if (!this.#objects.has(path)) for (const { number } of entries) this.numbers.push(number)
    this.#objects.add(path)
    return new Response(null, { headers: { etag: '"e"' } })
  }
}
