/** Guards that the cases protect, except those that another part of the campaign already removes. */
import { mutantsOf } from "../Line.ts"

export const mutants = mutantsOf({
  "attacks-receivers": {
    "a status below 200 is no answer": ["src/sinks/http/HttpAnswer.ts", '  if (status < 200) return "retry"\n', ""],
    "a receiver that ends its answer in the middle has answered, and is not asked again": [
      "src/runtime/HttpTransport.ts",
      "    // Either side ended it early, but the status is known.\n",
      '    throw new Error("cut off")\n',
    ],
    "an alert service that says 200 to an error has not taken the alert": [
      "src/sinks/alerts/slack/Slack.ts",
      "  if (known !== undefined) return known\n",
      '  if (known !== undefined && status > 200) return known\n  if (status === 200) return { verdict: "delivered" }\n',
    ],
  },
  "attacks-content": {
    "numbers that no double holds keep their digits": [
      "src/formats/Template.ts",
      "Envelope.ofEvent(entry.event, Numbers.parse)",
      "(Numbers.parse, Envelope.ofEvent(entry.event))",
    ],
    "own properties alone are read": ["src/event/Pointer.ts", "Object.hasOwn(value, token)", "token in value"],
  },
  "attacks-operations": {
    "a selection that is misspelt is none of all dead letters": [
      "src/admin/api/Api.ts",
      '  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" })\n',
      "",
    ],
    "a config that is a pipe is not opened": [
      "src/config/load/References.ts",
      'found.type !== "File"',
      'found.type === "Directory"',
    ],
    "an operator's pause goes along with a new name": [
      "src/journal/sqlite/service/SqliteLanes.ts",
      "if (paused !== false || mute !== undefined) yield* setPaused(engine, name, paused, mute)",
      "void from",
    ],
  },
})
