/** The whole program with SQS sinks. */
import { expect } from "bun:test"
import { makeQueue } from "../../parts/Queues.ts"
import { bodiesOf, dataOf, nothing, typesOf } from "../aws/awsProgram.ts"
import { programContract } from "../programContract.ts"
import { credentials, region, withMoto } from "./sqsSink.ts"

withMoto("the whole program with SQS sinks", (shared) => {
  const sqs = (queueUrl: string, more: object = {}) => ({ type: "sqs", queueUrl, region, credentials, ...more })

  programContract({
    service: "SQS",
    env: nothing,
    delivers: {
      how: "queues, standard and FIFO, as text and as CloudEvents",
      make: async () => {
        const plain = await makeQueue(shared().url)
        const ordered = await makeQueue(shared().url, { fifo: true })
        const events = await makeQueue(shared().url)
        return {
          sinks: {
            plain: sqs(plain.url),
            ordered: sqs(ordered.url, { order: "key" }),
            events: sqs(events.url, { format: "cloudevents" }),
          },
          advises: `sink plain: the queue ${plain.url} takes 1048576 bytes`,
          received: { plain: bodiesOf(plain), ordered: bodiesOf(ordered), events: dataOf(events) },
          ordered: ["ordered"],
          secrets: [credentials.secretAccessKey],
        }
      },
    },
    refuses: {
      what: "that credentials are missing, or that the queue is not there",
      make: async () => {
        const { url } = await makeQueue(shared().url)
        return {
          sinks: { keyless: { type: "sqs", queueUrl: url, region }, nowhere: sqs(`${url}-nowhere`) },
          says: {
            keyless: 'no credentials were found: set "credentials" or "profile"',
            nowhere: 'there is no such queue, or the credentials may not see it: make it, correct "queueUrl"',
          },
        }
      },
    },
    example: {
      file: "sqs",
      sends: "failures",
      make: async () => {
        const queue = await makeQueue(shared().url, { fifo: true })
        return {
          env: { SQS_QUEUE: queue.url },
          types: ["appointment.created", "appointment.meeting.create_failed"],
          check: async () => expect(await typesOf(queue, 1)).toEqual(["appointment.meeting.create_failed"]),
        }
      },
    },
  })
})
