/** The Microsoft Teams sink: an adaptive card to a Workflows webhook. */
import { Schema } from "effect"
import type { Meaning } from "../../http/HttpAnswer.ts"
import { url } from "../../http/HttpConfig.ts"
import * as Alerts from "../Alerts.ts"
import * as TeamsMessage from "./TeamsMessage.ts"

// --- config ------------------------------------------------------------------

export const TeamsConfig = Schema.Struct({
  url: url({
    description: 'The URL of a workflow "When a Teams webhook request is received": whoever has it may post',
    examples: ["https://example.api.powerplatform.com/workflows/0000"],
  }),
  ...Alerts.keys,
})
export type TeamsConfig = typeof TeamsConfig.Type

// --- classify ----------------------------------------------------------------

/** A workflow answers 202 when it takes a message; what it does with it is not known. */
const meaning: Meaning = (status, text) => {
  switch (status) {
    case 400:
      return /WorkflowTriggerIsNotEnabled|WorkflowNotEnabled/.test(text())
        ? { verdict: "misconfigured", because: "the workflow is turned off; turn it on in Power Automate" }
        : { verdict: "reject", because: "the workflow refuses the message as invalid" }
    case 401:
    case 403:
      return {
        verdict: "misconfigured",
        because: 'the workflow does not take this URL\'s signature; copy its URL into "url" again',
      }
    case 404:
    case 410:
      return { verdict: "misconfigured", because: 'there is no such workflow; make one and put its URL into "url"' }
    default:
      return undefined
  }
}

export const Teams = Alerts.sinkType<TeamsConfig>({
  type: "teams",
  config: TeamsConfig,
  payload: TeamsMessage.payload,
  meaning,
})
