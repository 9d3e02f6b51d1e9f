/** Alertmanager under each condition. */
import { alertRows, kindOf, revoked } from "./AlertRows.ts"
import { type Column, never } from "./Column.ts"
import { answer, json, page, refusesAll, refusesOne, throttles } from "./HttpRows.ts"
import { answers } from "./HttpService.ts"

const alertmanager = kindOf("alertmanager", () => answer(200))

export const column: Column = {
  sink: "alertmanager",
  cells: {
    ...alertRows("alertmanager", alertmanager),
    c: [revoked(alertmanager, () => answer(401, "Unauthorized"), /misconfigured: .*Unauthorized.*"headers"/)],
    d: [
      answers(
        alertmanager,
        "the path never existed, until it is corrected",
        () => () => json(404, { code: 404, message: "path /hooks was not found" }),
        { says: /misconfigured: .*was not found.*must end in \/api\/v2\/alerts/, isQuick: true },
      ),
    ],
    f: never(
      "a request has one alert, which is taken or not",
      "https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml",
    ),
    g: [
      refusesAll(
        alertmanager,
        "a proxy in front of it does not allow this machine",
        () => answer(403, "Forbidden"),
        /misconfigured: .*"Forbidden".*does not let the relay in/,
      ),
      refusesAll(
        alertmanager,
        "with 400, which may be about one alert",
        () => answer(400, '"invalid label set: invalid name"'),
        /misconfigured: refused 3 different events.*invalid label set/,
      ),
      refusesOne(
        alertmanager,
        "its content",
        () => answer(400, '"start time must be before end time"'),
        /400; it says .*start time must be before end time.*as invalid/,
        { isQuick: true },
      ),
    ],
    h: [refusesAll(alertmanager, "a sign-in page with 200", () => page(200, "Sign in"), /misconfigured: .*web page/)],
    j: [
      throttles(alertmanager, "429 with a time", () => answer(429, "slow down", { "retry-after": "2" }), 2_000),
      throttles(alertmanager, "429 without a time", () => answer(429, "slow down"), 5_000),
    ],
  },
}
