/** `relay runbook`: explains each state and what to do, from the embedded docs/operations/runbooks.md. */
import { Effect, Option } from "effect"
import { Argument, Command } from "effect/cli"
import page from "../../../docs/operations/runbooks.md" with { type: "text" }
import { usage } from "../support/CommandError.ts"
import { argument, Json, withExamples } from "../support/flags.ts"
import { plain, print, printJson, table } from "../support/output.ts"

interface Runbook {
  readonly state: string
  /** The level as `relay status` shows it: `critical`, `warning` or `note`. */
  readonly level: string
  /** The meaning of the state, and what to do. */
  readonly text: string
}

/** Returns the runbooks in the order of the page. */
export const runbooks = (): ReadonlyArray<Runbook> =>
  [...page.matchAll(/^## (\S+)\n\n((?:(?!^##).*\n?)*)/gm)].map(([, state = "", text = ""]) => ({
    state,
    level: (/^\w+/.exec(text)?.[0] ?? "").toLowerCase(),
    text: text.trim(),
  }))

export const runbook = Command.make(
  "runbook",
  {
    state: argument("state", "As `relay status` names it, such as sink-waiting; all of them when absent").pipe(
      Argument.optional,
    ),
  },
  Effect.fn(function* ({ state }) {
    const isJson = yield* Json
    if (Option.isNone(state)) {
      if (isJson) return yield* printJson(runbooks())
      return yield* print(table(runbooks().map(({ state, level }) => [state, level])))
    }
    const found = runbooks().find((one) => one.state === state.value)
    if (found === undefined) {
      return yield* usage(`there is no runbook ${plain(state.value)}; \`relay runbook\` lists them`)
    }
    yield* isJson ? printJson(found) : print(`${found.state}\n\n${found.text}`)
  }),
).pipe(
  withExamples({
    "relay runbook": "The states, and how bad each is",
    "relay runbook sink-misconfigured": "What it means, and what to do",
  }),
)
