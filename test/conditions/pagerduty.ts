/** PagerDuty under each condition. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { alertRows, kindOf } from "./AlertRows.ts"
import { type Column, never } from "./Column.ts"
import { answer, json, page, refusesAll, refusesOne, throttles } from "./HttpRows.ts"
import { answers, steps } from "./HttpService.ts"

const pagerduty = kindOf("pagerduty", () =>
  json(202, { status: "success", message: "Event processed", dedup_key: "x" }),
)

const invalid = (...errors: ReadonlyArray<string>) =>
  json(400, { status: "invalid event", message: "Event object is invalid", errors })

const unknownKey = () => invalid("'routing_key' is invalid")

const otherKey = steps(
  pagerduty,
  "the integration's key is replaced in its file; after a reload the new one is used",
  (service, { directory, reload }) => {
    const write = (key: string) => writeFileSync(join(directory, "key"), key)
    const keys = ["f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"] as const
    write(keys[0])
    return {
      sink: { ...pagerduty.sink(service.url), routingKey: `file:${join(directory, "key")}` },
      breaks: () => {
        service.answer = ({ body }) => (body.includes(keys[1]) ? undefined : unknownKey())
      },
      heals: () => {
        write(keys[1])
        return reload()
      },
    }
  },
  { says: /misconfigured: .*PagerDuty does not know the key/ },
)

export const column: Column = {
  sink: "pagerduty",
  cells: {
    ...alertRows("pagerduty", pagerduty),
    c: [otherKey],
    d: [
      answers(pagerduty, "the integration is deleted, and made again", () => unknownKey, {
        says: /misconfigured: .*PagerDuty does not know the key; check "routingKey"/,
        isQuick: true,
      }),
      answers(pagerduty, "the path never existed, until it is corrected", () => () => page(404, "Not Found"), {
        says: /misconfigured: .*404; it says "Not Found".*path of "url"/,
        isThereAtStart: true,
      }),
    ],
    f: never(
      "a request has one event, which is taken as a whole or not at all",
      "https://developer.pagerduty.com/docs/send-alert-event",
    ),
    g: [
      refusesAll(
        pagerduty,
        "this machine's address is not allowed",
        () => answer(403, "Forbidden"),
        /misconfigured: .*"Forbidden".*does not let the relay in/,
      ),
      refusesAll(
        pagerduty,
        "with 400, which may be about one event",
        () => invalid("'payload.severity' is invalid"),
        /misconfigured: refused 3 different events.*Event object is invalid/,
      ),
      refusesOne(
        pagerduty,
        "its content",
        () => invalid("'payload.summary' is missing or blank"),
        /400; it says "Event object is invalid.*missing or blank".*as invalid/,
        {
          isQuick: true,
        },
      ),
      refusesOne(
        pagerduty,
        "too large",
        () => answer(413, "Request Entity Too Large"),
        /413; it says "Request Entity Too Large"/,
      ),
    ],
    h: [
      refusesAll(pagerduty, "a sign-in page with 200", () => page(200, "Sign in"), /misconfigured: .*web page/),
      refusesAll(
        pagerduty,
        "200 of another service",
        () => answer(200, "ok"),
        /misconfigured: .*another service; check "url"/,
      ),
    ],
    j: [
      throttles(
        pagerduty,
        "429 without a time",
        () =>
          json(429, {
            status: "throttle exceeded",
            message: "Requests for this routing key are arriving too quickly.",
          }),
        5_000,
      ),
      throttles(
        pagerduty,
        "429 with a time",
        () => json(429, { status: "throttle exceeded" }, { "retry-after": "1" }),
        1_000,
      ),
    ],
  },
}
