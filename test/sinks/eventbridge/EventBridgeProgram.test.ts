/** The whole program with EventBridge sinks. */
import { expect } from "bun:test"
import { Effect } from "effect"
import { makeBus, type Topic } from "../../parts/Queues.ts"
import { bodiesOf, nothing } from "../aws/awsProgram.ts"
import { programContract } from "../programContract.ts"
import { credentials, withMoto } from "./eventBridgeSink.ts"

withMoto("the whole program with EventBridge sinks", (shared) => {
  const eventbridge = (eventBusArn: string, more: object = {}) => ({
    type: "eventbridge",
    eventBusArn,
    endpoint: shared().url,
    ...more,
  })
  const detailsOf = (bus: Topic) => async (sent: ReadonlyArray<string>) =>
    (await bodiesOf(bus)(sent)).map((body) => JSON.parse(body).detail)

  programContract({
    service: "EventBridge",
    env: nothing,
    delivers: {
      how: "buses, as the envelope and as CloudEvents",
      make: async () => {
        const [plain, events] = [await makeBus(shared().url), await makeBus(shared().url)]
        return {
          sinks: {
            plain: eventbridge(plain.arn, { credentials }),
            events: eventbridge(events.arn, { credentials, format: "cloudevents" }),
          },
          advises: "sink plain: EventBridge takes 1048575 bytes",
          received: {
            plain: async (sent) => (await detailsOf(plain)(sent)).map((detail) => JSON.stringify(detail)),
            events: async (sent) => (await detailsOf(events)(sent)).map(({ data }) => JSON.stringify(data)),
          },
          secrets: [credentials.secretAccessKey],
        }
      },
    },
    refuses: {
      what: "that credentials are missing, or that the bus is not there",
      make: async () => {
        const { arn } = await makeBus(shared().url)
        return {
          sinks: { keyless: eventbridge(arn), nowhere: eventbridge(`${arn}-nowhere`, { credentials }) },
          says: {
            keyless: 'no credentials were found: set "credentials" or "profile"',
            nowhere: 'there is no such event bus: make it, or correct "eventBusArn"',
          },
        }
      },
    },
    example: {
      file: "eventbridge",
      sends: "everything",
      make: async () => {
        const bus = await makeBus(shared().url)
        return {
          env: { EVENTBRIDGE_ENDPOINT: shared().url, EVENT_BUS: bus.arn },
          types: ["appointment.created"],
          check: async () => {
            const [sent] = await Effect.runPromise(bus.received(1))
            expect(JSON.parse(sent?.body ?? "")).toMatchObject({
              source: "com.example.scheduling",
              "detail-type": "appointment.created",
              detail: { specversion: "1.0" },
            })
          },
        }
      },
    },
  })
})
