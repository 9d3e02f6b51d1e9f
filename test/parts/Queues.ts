/**
 * Queues of a test's own, topics and event buses with a queue behind each, and the messages in them: by plain HTTP,
 * without a line of the AWS SDK.
 */
import { Effect } from "effect"

export const region = "eu-west-1"
export const account = "123456789012"

/** moto checks only the scope. */
const authorization = (service: string): string =>
  `AWS4-HMAC-SHA256 Credential=test/20261121/${region}/${service}/aws4_request, SignedHeaders=host, Signature=0`

/** Calls SNS by its query protocol. The answer is XML. */
const sns = async (url: string, action: string, parameters: Readonly<Record<string, string>>): Promise<string> => {
  const response = await fetch(url, {
    method: "POST",
    headers: { authorization: authorization("sns") },
    body: new URLSearchParams({ Action: action, Version: "2010-03-31", ...parameters }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`SNS ${action}: ${response.status} ${text}`)
  return text
}

/** Calls a service by its JSON protocol, which keeps bodies unchanged. XML would change line feeds. */
const json =
  (service: string, target: string) =>
  async <A>(url: string, action: string, parameters: object): Promise<A> => {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        authorization: authorization(service),
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": `${target}.${action}`,
      },
      body: JSON.stringify(parameters),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${target}.${action}: ${response.status} ${text}`)
    return (text === "" ? {} : JSON.parse(text)) as A
  }
const sqs = json("sqs", "AmazonSQS")
const events = json("events", "AWSEvents")

export interface Received {
  readonly body: string
  readonly attributes: Readonly<Record<string, string>>
  /** The group of a FIFO queue's message. */
  readonly group: string | undefined
  readonly deduplication: string | undefined
}

/** The signed bytes, decoded as the documentation describes. */
export const bytesOf = ({ body, attributes }: Received): Uint8Array => {
  if (attributes.encoding === "empty") return new Uint8Array(0)
  return Buffer.from(body, attributes.encoding === "base64" ? "base64" : "utf8")
}

/** Waits for `count` messages. Returns all that were received since the start, in the queue's order. */
type Receiving = (count: number) => Effect.Effect<ReadonlyArray<Received>>

export interface Topic {
  readonly arn: string
  readonly received: Receiving
}

export interface Queue {
  readonly url: string
  readonly arn: string
  readonly received: Receiving
}

interface Message {
  readonly Body: string
  readonly ReceiptHandle: string
  readonly Attributes?: { readonly MessageGroupId?: string; readonly MessageDeduplicationId?: string }
  readonly MessageAttributes?: Readonly<Record<string, { readonly StringValue: string }>>
}

let made = 0

const queueArn = (name: string): string => `arn:aws:sqs:${region}:${account}:${name}`

const receiving = (url: string, QueueUrl: string): Receiving => {
  const kept: Array<Received> = []
  const receive = async (wait: number): Promise<void> => {
    const { Messages = [] } = await sqs<{ Messages?: ReadonlyArray<Message> }>(url, "ReceiveMessage", {
      QueueUrl,
      MaxNumberOfMessages: 10,
      WaitTimeSeconds: wait,
      MessageAttributeNames: ["All"],
      AttributeNames: ["All"],
    })
    for (const { Body, ReceiptHandle, Attributes, MessageAttributes = {} } of Messages) {
      kept.push({
        body: Body,
        attributes: Object.fromEntries(
          Object.entries(MessageAttributes).map(([key, { StringValue }]) => [key, StringValue]),
        ),
        group: Attributes?.MessageGroupId,
        deduplication: Attributes?.MessageDeduplicationId,
      })
      // A FIFO queue returns the next message of a group after this one is deleted.
      await sqs(url, "DeleteMessage", { QueueUrl, ReceiptHandle })
    }
  }
  return (count) =>
    Effect.promise(async () => {
      while (kept.length < count) await receive(1)
      await receive(0)
      return [...kept]
    })
}

export const makeQueue = async (
  url: string,
  {
    fifo = false,
    name = `queue-${++made}`,
    attributes = {},
  }: { fifo?: boolean; name?: string; attributes?: Readonly<Record<string, string>> } = {},
): Promise<Queue> => {
  const full = `${name}${fifo ? ".fifo" : ""}`
  // Received messages stay invisible for twelve hours.
  const Attributes = { VisibilityTimeout: "43200", ...(fifo && { FifoQueue: "true" }), ...attributes }
  await sqs(url, "CreateQueue", { QueueName: full, Attributes })
  const queueUrl = `${url}/${account}/${full}`
  return { url: queueUrl, arn: queueArn(full), received: receiving(url, queueUrl) }
}

/** Number of messages in a queue. */
export const sizeOf = async (queueUrl: string): Promise<number> => {
  const { Attributes } = await sqs<{ Attributes: Readonly<Record<string, string>> }>(
    new URL(queueUrl).origin,
    "GetQueueAttributes",
    { QueueUrl: queueUrl, AttributeNames: ["ApproximateNumberOfMessages"] },
  )
  return Number(Attributes.ApproximateNumberOfMessages)
}

/** Deletes a queue. */
export const removeQueue = (url: string, name: string): Promise<unknown> =>
  sqs(url, "DeleteQueue", { QueueUrl: `${url}/${account}/${name}` })

/** Deletes a topic, and keeps its queue. */
export const removeTopic = (url: string, name: string): Promise<unknown> =>
  sns(url, "DeleteTopic", { TopicArn: `arn:aws:sns:${region}:${account}:${name}` })

export const makeTopic = async (
  url: string,
  { fifo = false, name = `topic-${++made}`, filter = {} }: { fifo?: boolean; name?: string; filter?: object } = {},
): Promise<Topic> => {
  const full = `${name}${fifo ? ".fifo" : ""}`
  const arn = `arn:aws:sns:${region}:${account}:${full}`
  const fifoTopic = { "Attributes.entry.1.key": "FifoTopic", "Attributes.entry.1.value": "true" }
  await sns(url, "CreateTopic", { Name: full, ...(fifo && fifoTopic) })
  const queue = await makeQueue(url, { fifo, name })
  const subscription: Record<string, string> = {
    RawMessageDelivery: "true",
    ...(Object.keys(filter).length > 0 && { FilterPolicy: JSON.stringify(filter) }),
  }
  const numbered = Object.entries(subscription).flatMap(([key, value], index) => [
    [`Attributes.entry.${index + 1}.key`, key],
    [`Attributes.entry.${index + 1}.value`, value],
  ])
  await sns(url, "Subscribe", {
    TopicArn: arn,
    Protocol: "sqs",
    Endpoint: queue.arn,
    ...Object.fromEntries(numbered),
  })
  return { arn, received: queue.received }
}

/** An event bus, with a queue for events that match the pattern (default: everything of this account). */
export const makeBus = async (
  url: string,
  { name = `bus-${++made}`, pattern = { account: [account] } }: { name?: string; pattern?: object } = {},
): Promise<Topic & { readonly queueUrl: string }> => {
  await events(url, "CreateEventBus", { Name: name })
  const queue = await makeQueue(url, { name })
  await events(url, "PutRule", { Name: name, EventBusName: name, EventPattern: JSON.stringify(pattern) })
  await events(url, "PutTargets", { Rule: name, EventBusName: name, Targets: [{ Id: "queue", Arn: queue.arn }] })
  const arn = `arn:aws:events:${region}:${account}:event-bus/${name}`
  return { arn, received: queue.received, queueUrl: queue.url }
}

/** Deletes an event bus with its rule, and keeps its queue. */
export const removeBus = async (url: string, name: string): Promise<void> => {
  await events(url, "RemoveTargets", { Rule: name, EventBusName: name, Ids: ["queue"] })
  await events(url, "DeleteRule", { Name: name, EventBusName: name })
  await events(url, "DeleteEventBus", { Name: name })
}
