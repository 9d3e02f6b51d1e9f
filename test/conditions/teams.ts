/** Workflows of Teams, and the retired connector, under each condition. */
import { alertRows, kindOf, revoked } from "./AlertRows.ts"
import { type Column, never } from "./Column.ts"
import { answer, json, page, refusesAll, refusesOne, throttles } from "./HttpRows.ts"
import { answers } from "./HttpService.ts"

const teams = kindOf("teams", () => answer(202))

const error = (status: number, code: string, message: string) => json(status, { error: { code, message } })

/** The connector answers 200 in each case. */
const connector = (code: number) =>
  answer(
    200,
    `Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error ${code} with ContextId tcid=0,server=AM3PEPF0000`,
  )

const signature = () =>
  error(401, "DirectApiAuthorizationRequired", "The request must be authenticated only by Shared Access scheme.")

export const column: Column = {
  sink: "teams",
  cells: {
    ...alertRows("teams", teams),
    c: [revoked(teams, signature, /misconfigured: .*only by Shared Access scheme.*copy its URL/)],
    d: [
      answers(
        teams,
        "the workflow is deleted, and made again",
        () => () => error(404, "WorkflowNotFound", "The workflow 'ab12' could not be found."),
        { says: /misconfigured: .*could not be found.*there is no such workflow/, isQuick: true },
      ),
      answers(
        teams,
        "the workflow is turned off for a while",
        () => () => error(404, "WorkflowTriggerIsNotEnabled", "Could not execute workflow trigger 'manual'."),
        { says: /misconfigured: .*turned off; turn it on in Power Automate/ },
      ),
    ],
    f: never(
      "a workflow takes one request, as a whole or not at all",
      "https://learn.microsoft.com/en-us/connectors/teams/",
    ),
    g: [
      refusesAll(
        teams,
        "its URL is signed by a key that was replaced",
        () => error(401, "AuthorizationFailed", "The authentication credentials are not valid."),
        /misconfigured: .*credentials are not valid.*copy its URL/,
      ),
      refusesAll(
        teams,
        "by the schema of the trigger",
        () => error(400, "TriggerInputSchemaMismatch", "The input body for trigger 'manual' did not match its schema."),
        /misconfigured: refused 3 different events.*did not match its schema/,
      ),
      refusesOne(
        teams,
        "its content",
        () => error(400, "InvalidRequestContent", "The request content is not valid."),
        /request content is not valid.*as invalid/,
        { isQuick: true },
      ),
      refusesOne(teams, "too large for the connector", () => connector(413), /refused the message \(413\)/),
    ],
    h: [
      refusesAll(
        teams,
        "a sign-in page with 200",
        () => page(200, "Sign in to your account"),
        /misconfigured: .*web page/,
      ),
      answers(teams, "the connector answers 200 and says 429; the lane waits", () => () => connector(429), {
        says: /waiting: .*answered 200.*Teams refused the message \(429\)/,
        bound: { wait: 5_000, because: "the connector names no time, so the lane waits for five seconds" },
      }),
      answers(teams, "the connector answers 200 and says 403", () => () => connector(403), {
        says: /misconfigured: .*answered 200.*Teams refused the message \(403\).*make a workflow/,
      }),
    ],
    j: [
      throttles(
        teams,
        "429 with a time",
        () =>
          json(
            429,
            { error: { code: "WorkflowRunRateLimited", message: "Rate limit is exceeded. Try again in 2 seconds." } },
            { "retry-after": "2" },
          ),
        2_000,
      ),
      throttles(teams, "429 without a time", () => error(429, "TooManyRequests", "Too many requests"), 5_000),
    ],
  },
}
