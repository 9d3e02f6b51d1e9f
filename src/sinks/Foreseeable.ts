/** The names that a template gives to events of the known types: for advice, before there is an event. */
import type { Entry } from "../event/Entry.ts"
import { eventTypes } from "../event/EventType.ts"
import * as Template from "../formats/Template.ts"

/** Topics or subjects; none where the template needs more than the type. */
export const foreseeable = (template: string): ReadonlyArray<string> => {
  if (/\{\{(?!\s*(type|resource)\s*\}\})/.test(template)) return []
  const topic = Template.compile(template, "topic")
  return [...new Set(eventTypes.map((type) => topic.render(sampleOf(type))))]
}

const sampleOf = (type: string): Entry => ({
  sequence: 0,
  event: {
    id: "",
    type,
    accountId: "",
    webhook: "",
    webhookId: "",
    signature: "",
    secret: "",
    receivedAt: 0,
    body: new Uint8Array(),
  },
  sinks: [],
  replayed: false,
})
