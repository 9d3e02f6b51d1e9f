/** PagerDuty by its documentation. */
import { common, fields, isText, isTime, json, parse, problem, type Service } from "../localService.ts"

/** The one integration key that the local PagerDuty knows. */
export const routingKey = "0123456789abcdef0123456789abcdef"

export const pagerduty: Service = {
  problems: (body) => {
    const event = fields(parse(body))
    const payload = fields(event.payload)
    return [
      ...common(event),
      ...problem(body.length <= 512_000, "over 512 KB"),
      ...problem(event.routing_key === routingKey, "Length of 'routing_key' is incorrect (should be 32 characters)"),
      ...problem(["trigger", "acknowledge", "resolve"].includes(String(event.event_action)), "event_action"),
      ...problem(isText(event.dedup_key, 255), "dedup_key"),
      ...(event.event_action === "trigger"
        ? [
            ...problem(isText(payload.summary, 1_024), "summary"),
            ...problem(isText(payload.source, 1_024), "source"),
            ...problem(["critical", "error", "warning", "info"].includes(String(payload.severity)), "severity"),
            ...problem(isTime(payload.timestamp), "timestamp"),
          ]
        : []),
    ]
  },
  accept: (response) => json(response, 202, { status: "success", message: "Event processed", dedup_key: "x" }),
  refuse: (response, errors) =>
    json(response, 400, { status: "invalid event", message: "Event object is invalid", errors }),
}
