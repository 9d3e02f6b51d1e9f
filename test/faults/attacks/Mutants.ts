/** Guards that the cases protect. Those that another part of the campaign has removed already are left to it. */
import type { Mutant } from "../Line.ts"

export const mutants: ReadonlyArray<Mutant> = [
  {
    gone: "a status below 200 is no answer",
    file: "src/sinks/http/HttpAnswer.ts",
    find: '  if (status < 200) return "retry"\n',
    replace: "",
    line: "attacks-receivers",
  },
  {
    gone: "a receiver that ends its answer in the middle has answered, and is not asked again",
    file: "src/runtime/HttpTransport.ts",
    find: "    // Either side ended it early, but the status is known.\n",
    replace: '    throw new Error("cut off")\n',
    line: "attacks-receivers",
  },
  {
    gone: "an alert service that says 200 to an error has not taken the alert",
    file: "src/sinks/alerts/slack/Slack.ts",
    find: "  if (known !== undefined) return known\n",
    replace:
      '  if (known !== undefined && status > 200) return known\n  if (status === 200) return { verdict: "delivered" }\n',
    line: "attacks-receivers",
  },
  {
    gone: "numbers that no double holds keep their digits",
    file: "src/formats/Template.ts",
    find: "Envelope.decode(entry.event.body, Numbers.parse)",
    replace: "(Numbers.parse, Envelope.decode(entry.event.body))",
    line: "attacks-content",
  },
  {
    gone: "own properties alone are read",
    file: "src/event/Pointer.ts",
    find: "Object.hasOwn(value, token)",
    replace: "token in value",
    line: "attacks-content",
  },
  {
    gone: "a selection that is misspelt is none of all dead letters",
    file: "src/admin/api/Api.ts",
    find: '  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" })\n',
    replace: "",
    line: "attacks-operations",
  },
  {
    gone: "a config that is a pipe is not opened",
    file: "src/config/load/References.ts",
    find: 'found.type !== "File"',
    replace: 'found.type === "Directory"',
    line: "attacks-operations",
  },
  {
    gone: "an operator's pause goes along with a new name",
    file: "src/journal/sqlite/service/SqliteLanes.ts",
    find: "if (paused !== false || mute !== undefined) yield* setPaused(engine, name, paused, mute)",
    replace: "void from",
    line: "attacks-operations",
  },
]
