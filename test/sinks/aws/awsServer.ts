/**
 * An SQS and an EventBridge for cases that moto doesn't cover: it applies the limits of a request as AWS counts them,
 * and fails on request.
 */
import { Effect, type Scope } from "effect"
import { serve } from "../receiver.ts"

/** An entry of a request, as received. */
export type Sent = Readonly<Record<string, unknown>>

/** The fate of a request: an HTTP answer, or none. */
export type Fate =
  | { readonly status: number; readonly body?: string; readonly headers?: Readonly<Record<string, string>> }
  | "reset"
  | "silence"
  /** Answers 200, but lists only the entries that failed. */
  | "forgets"

/** A refused entry: its code, and whether the sender is to blame, if the service reports that. */
export type Refusal = readonly [code: string, senderFault?: boolean]

export interface Behaviour {
  readonly refuse?: (sent: Sent) => Refusal | undefined
  readonly fate?: (action: string, count: number, sent: ReadonlyArray<Sent>) => Fate | undefined
}

export interface AwsServer {
  readonly url: string
  /** The requested actions, such as `SendMessageBatch`. */
  readonly actions: ReadonlyArray<string>
  /** Requests with entries, each as its list of entries. */
  readonly requests: ReadonlyArray<ReadonlyArray<Sent>>
  /** Accepted entries, in order. */
  readonly passed: () => ReadonlyArray<Sent>
  /** The access key of each request. */
  readonly keys: ReadonlyArray<string>
  readonly sockets: ReadonlySet<unknown>
}

export const errorJson = (code: string, message = "as the test wants it"): string =>
  JSON.stringify({ __type: `com.amazonaws#${code}`, message })

const bytesOf = (value: unknown): number => (typeof value === "string" ? Buffer.byteLength(value) : 0)

/** SQS counts the body, and the names, types and values of the attributes. */
export const sqsSize = ({ MessageBody, MessageAttributes = {} }: Sent): number =>
  Object.entries(MessageAttributes as Record<string, Sent>).reduce(
    (sum, [name, { DataType, StringValue }]) => sum + bytesOf(name) + bytesOf(DataType) + bytesOf(StringValue),
    bytesOf(MessageBody),
  )

/** EventBridge counts 14 bytes for the time, and the source, the detail type, the detail and the resources. */
export const eventSize = ({ Time, Source, DetailType, Detail, Resources }: Sent): number =>
  [Source, DetailType, Detail, ...((Resources as ReadonlyArray<string>) ?? [])].reduce(
    (sum: number, text) => sum + bytesOf(text),
    Time === undefined ? 0 : 14,
  )

/** AWS's error for an invalid request, in its own words. */
const unlawful = (action: string, sent: ReadonlyArray<Sent>): readonly [code: string, message: string] | undefined => {
  if (action === "PutEvents") {
    if (sent.length > 10) return ["ValidationException", "length less than or equal to 10"]
    const bytes = sent.reduce((sum, one) => sum + eventSize(one), 0)
    return bytes < 1_048_576 ? undefined : ["ValidationException", "Total size of the entries is over the limit."]
  }
  if (sent.length > 10) return ["TooManyEntriesInBatchRequest", ""]
  if (sent.reduce((sum, one) => sum + sqsSize(one), 0) > 1_048_576) return ["BatchRequestTooLong", ""]
  return new Set(sent.map(({ Id }) => Id)).size < sent.length ? ["BatchEntryIdsNotDistinct", ""] : undefined
}

/** Answers to the other actions: the queue and the bus exist. */
const there: Readonly<Record<string, unknown>> = {
  GetQueueAttributes: { Attributes: { MaximumMessageSize: "1048576" } },
  DescribeEventBus: { Name: "events", Arn: "arn" },
}

export const awsServer = ({ refuse, fate }: Behaviour = {}): Effect.Effect<AwsServer, never, Scope.Scope> =>
  Effect.suspend(() => {
    const actions: Array<string> = []
    const requests: Array<ReadonlyArray<Sent>> = []
    const passed: Array<Sent> = []
    const keys: Array<string> = []
    return Effect.map(
      serve(({ headers, body }, response, raw) => {
        const action = String(headers["x-amz-target"]).replace(/^.*\./, "")
        const { Entries: sent = [] }: { readonly Entries?: ReadonlyArray<Sent> } = JSON.parse(
          Buffer.from(body).toString(),
        )
        actions.push(action)
        if (sent.length > 0) requests.push(sent)
        keys.push(/Credential=([^/]+)/.exec(headers.authorization ?? "")?.[1] ?? "")
        const answer = (status: number, text: string, more: Readonly<Record<string, string>> = {}) =>
          response.writeHead(status, { "content-type": "application/x-amz-json-1.0", ...more }).end(text)
        const own = fate?.(action, requests.length, sent)
        if (own === "silence") return
        if (own === "reset") return void raw.socket.destroy()
        if (typeof own === "object") return void answer(own.status, own.body ?? "", own.headers)
        const known = there[action]
        if (known !== undefined) return void answer(200, JSON.stringify(known))
        const law = unlawful(action, sent)
        if (law !== undefined) return void answer(400, errorJson(...law))
        const verdicts = sent.map((one) => [one, refuse?.(one)] as const)
        if (own !== "forgets") for (const [one, refusal] of verdicts) if (refusal === undefined) passed.push(one)
        const named = verdicts.filter(([, refusal]) => refusal !== undefined || own !== "forgets")
        if (action === "PutEvents") {
          const Entries = named.map(([, refusal]) =>
            refusal === undefined ? { EventId: "id" } : { ErrorCode: refusal[0], ErrorMessage: "canary" },
          )
          const FailedEntryCount = Entries.filter(({ ErrorCode }) => ErrorCode !== undefined).length
          return void answer(200, JSON.stringify({ FailedEntryCount, Entries }))
        }
        const Successful = named.filter(([, refusal]) => refusal === undefined).map(([{ Id }]) => ({ Id }))
        const Failed = named.flatMap(([{ Id }, refusal]) =>
          refusal === undefined ? [] : [{ Id, Code: refusal[0], SenderFault: refusal[1], Message: "canary" }],
        )
        answer(200, JSON.stringify({ Successful, Failed }))
      }),
      ({ url, sockets }) => ({ url, actions, requests, passed: () => [...passed], keys, sockets }),
    )
  })
