/**
 * An SNS for cases that moto doesn't cover: it applies the limits of a request as AWS counts them, and fails on
 * request.
 */
import { Effect, type Scope } from "effect"
import type { Fate, Refusal } from "../aws/awsServer.ts"
import { serve } from "../receiver.ts"

export interface Published {
  readonly id: string
  readonly text: string
  readonly attributes: Readonly<Record<string, string>>
  readonly group: string | undefined
  readonly deduplication: string | undefined
  /** Bytes as SNS counts them. */
  readonly size: number
}

export interface Behaviour {
  readonly refuse?: (message: Published) => Refusal | undefined
  readonly fate?: (request: ReadonlyArray<Published>, count: number) => Fate | undefined
}

export interface SnsServer {
  readonly url: string
  /** All requests, each as its list of messages. */
  readonly requests: ReadonlyArray<ReadonlyArray<Published>>
  /** Accepted messages, in order. */
  readonly passed: () => ReadonlyArray<Published>
  /** The access key of each request. */
  readonly keys: ReadonlyArray<string>
  readonly sockets: ReadonlySet<unknown>
  /** Connections since the start. */
  readonly connections: () => number
  /** Resolves after `count` requests. */
  readonly asked: (count: number) => Effect.Effect<void>
}

export const errorXml = (code: string, message = "as the test wants it"): string =>
  `<ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error><RequestId>r</RequestId></ErrorResponse>`

const member = /^PublishBatchRequestEntries\.member\.(\d+)\.(.+)$/

const published = (form: URLSearchParams): ReadonlyArray<Published> => {
  const entries = new Map<string, Map<string, string>>()
  for (const [key, value] of form) {
    const [, number = "", field = ""] = member.exec(key) ?? []
    if (number === "") continue
    const entry = entries.get(number) ?? new Map<string, string>()
    entries.set(number, entry.set(field, value))
  }
  return [...entries.values()].map((fields) => {
    const attributes: Record<string, string> = {}
    let size = Buffer.byteLength(fields.get("Message") ?? "")
    for (let n = 1; fields.has(`MessageAttributes.entry.${n}.Name`); n++) {
      const at = (what: string) => fields.get(`MessageAttributes.entry.${n}.${what}`) ?? ""
      const [name, type, value] = [at("Name"), at("Value.DataType"), at("Value.StringValue")]
      attributes[name] = value
      size += [name, type, value].reduce((sum, part) => sum + Buffer.byteLength(part), 0)
    }
    return {
      id: fields.get("Id") ?? "",
      text: fields.get("Message") ?? "",
      attributes,
      group: fields.get("MessageGroupId"),
      deduplication: fields.get("MessageDeduplicationId"),
      size,
    }
  })
}

/** AWS's error for an invalid request, in its own words. */
const unlawful = (request: ReadonlyArray<Published>): string | undefined => {
  if (request.length > 10) return "TooManyEntriesInBatchRequest"
  if (request.reduce((sum, { size }) => sum + size, 0) > 262_144) return "BatchRequestTooLong"
  if (new Set(request.map(({ id }) => id)).size < request.length) return "BatchEntryIdsNotDistinct"
  const isEmpty = ({ text, attributes }: Published) => [text, ...Object.values(attributes)].includes("")
  return request.length === 0 || request.some(isEmpty) ? "InvalidParameter" : undefined
}

const entryXml = ({ id }: Published, refusal: Refusal | undefined): string =>
  refusal === undefined
    ? `<member><Id>${id}</Id><MessageId>m</MessageId></member>`
    : `<member><Id>${id}</Id><Code>${refusal[0]}</Code><Message>canary</Message><SenderFault>${refusal[1]}</SenderFault></member>`

export const snsServer = ({ refuse, fate }: Behaviour = {}): Effect.Effect<SnsServer, never, Scope.Scope> =>
  Effect.suspend(() => {
    const requests: Array<ReadonlyArray<Published>> = []
    const passed: Array<Published> = []
    const keys: Array<string> = []
    const wake: Array<() => void> = []
    return Effect.map(
      serve(({ headers, body }, response, raw) => {
        const form = new URLSearchParams(body.toString())
        const request = published(form)
        requests.push(request)
        keys.push(/Credential=([^/]+)/.exec(headers.authorization ?? "")?.[1] ?? "")
        for (const go of wake.splice(0)) go()
        const answer = (status: number, text: string, headers: Readonly<Record<string, string>> = {}) =>
          response.writeHead(status, { "content-type": "text/xml", ...headers }).end(text)
        const own = fate?.(request, requests.length)
        if (own === "silence") return
        if (own === "reset") return void raw.socket.destroy()
        if (typeof own === "object") return void answer(own.status, own.body ?? "", own.headers)
        if (form.get("Action") !== "PublishBatch") {
          return void answer(
            200,
            "<GetTopicAttributesResponse><GetTopicAttributesResult><Attributes><entry><key>TopicArn</key><value>t</value></entry></Attributes></GetTopicAttributesResult></GetTopicAttributesResponse>",
          )
        }
        const law = unlawful(request)
        if (law !== undefined) return void answer(400, errorXml(law))
        const refusals = new Map(request.map((message) => [message, refuse?.(message)]))
        const failed = request.filter((message) => refusals.get(message) !== undefined)
        const good = own === "forgets" ? [] : request.filter((message) => !failed.includes(message))
        passed.push(...good)
        answer(
          200,
          `<PublishBatchResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><PublishBatchResult><Failed>${failed.map((one) => entryXml(one, refusals.get(one))).join("")}</Failed><Successful>${good.map((one) => entryXml(one, undefined)).join("")}</Successful></PublishBatchResult></PublishBatchResponse>`,
        )
      }),
      ({ url, sockets, connections }) => ({
        url,
        requests,
        passed: () => [...passed],
        keys,
        sockets,
        connections,
        asked: (count) =>
          Effect.promise(async () => {
            while (requests.length < count) await new Promise<void>((resolve) => wake.push(resolve))
          }),
      }),
    )
  })
