import { Effect, Schema } from "effect"
import type { Entry } from "../../../src/event/Entry.ts"
import type { Reason } from "../../../src/sinks/Sink.ts"
import { sinkTypes } from "../../../src/sinks/Sinks.ts"
import { canary, sinkContract } from "../../contract/sinkContract.ts"
import { serve } from "../receiver.ts"
import { local, type Name, names, own, routingKey } from "./services.ts"

const open = (name: Name, url: string, more: object = {}) =>
  Effect.suspend(() => {
    const type = sinkTypes[name]
    if (type === undefined) throw new Error(`there is no sink type ${name}`)
    const headers = { authorization: canary }
    return type.open(
      name,
      Schema.decodeUnknownSync(type.config)({ ...own[name], ...more, headers, url: `${url}/${canary}` }),
    )
  })

/** What the sink's preview says of an event: the payload, with the secret that is masked there. */
const payloadOf =
  (name: Name) =>
  (entry: Entry): Uint8Array => {
    const type = sinkTypes[name]
    const config = type && Schema.decodeUnknownSync(type.config)({ ...own[name], url: "https://example.com" })
    const text = JSON.stringify(type?.preview?.(config, [entry])[0]?.body)
    return Buffer.from(text.replace('"routing_key":"***"', `"routing_key":"${routingKey}"`))
  }

/** Answers that no person but one who acts can mend. */
const wrong: Readonly<Record<Name, ReadonlyArray<readonly [status: number, body: string, says: RegExp]>>> = {
  pagerduty: [
    [400, '{"errors":["Length of \'routing_key\' is incorrect"]}', /routingKey/],
    [200, "<html>", /202/],
  ],
  slack: [
    [404, "no_service", /make another/],
    [403, "action_prohibited", /administrator/],
    [410, "channel_is_archived", /channel/],
  ],
  teams: [
    [401, "", /URL/],
    [404, "", /no such workflow/],
    [400, '{"error":{"code":"WorkflowTriggerIsNotEnabled"}}', /turned off/],
  ],
  discord: [
    [404, '{"code":10015}', /webhook/],
    [401, '{"code":50027}', /token/],
  ],
}

for (const name of names) {
  sinkContract(`the ${name} sink`, {
    bytesOf: payloadOf(name),
    make: Effect.gen(function* () {
      const bodies: Array<Uint8Array> = []
      let wake: Array<() => void> = []
      const { url } = yield* local(name, ({ body }) => {
        bodies.push(body)
        for (const waiter of wake.splice(0)) waiter()
      })
      return {
        open: open(name, url),
        received: (count) =>
          Effect.promise(async () => {
            while (bodies.length < count) await new Promise<void>((resolve) => wake.push(resolve))
            wake = []
            return bodies
          }),
      }
    }),
    wrong: [
      ...wrong[name].map(([status, body, says]) => ({
        title: `an answer of ${status} ${body}`,
        open: Effect.gen(function* () {
          const { url } = yield* serve((_, response) => response.writeHead(status).end(body))
          return yield* open(name, url)
        }),
        reason: "SinkMisconfigured" as Reason["_tag"],
        says: [/POST http:\/\/127\.0\.0\.1:\d+ answered/, String(status), says],
      })),
      {
        title: "a service that is not there",
        open: open(name, "http://127.0.0.1:1"),
        reason: "SinkUnavailable",
        says: ["http://127.0.0.1:1", /can't be reached/],
      },
    ],
  })
}
