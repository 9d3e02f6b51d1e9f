/** Errors of the admin API that several groups share. */
import { Effect } from "effect"
import type { JournalError } from "../journal/Journal.ts"
import * as Pattern from "../routing/Pattern.ts"
import * as Api from "./Api.ts"

export const unavailable = ({ message }: JournalError) => new Api.Unavailable({ message })

/** Maps a caller's mistake to a refusal, and any other error to {@link unavailable}. */
export const refusedOr = (error: JournalError) =>
  error.reason._tag === "JournalRefused" ? new Api.Refused({ message: error.message }) : unavailable(error)

export const noLane = (name: string) =>
  new Api.NotFound({ message: `there is no lane ${name}; \`relay lanes list\` shows them` })

/** A lane without a sink sends nothing, so it can't be paused. */
export const sinkRemoved = (name: string) =>
  new Api.NotFound({
    message: `${name} has no sink in the config: move its events with \`relay lanes move ${name} TO\`, or drop them with \`relay lanes drop ${name}\``,
  })

export const noWebhook = (name: string | undefined) =>
  new Api.NotFound({ message: `there is no webhook ${name} in the config` })

export const noSink = (name: string | undefined) =>
  new Api.NotFound({ message: `there is no sink ${name} in the config; \`relay status\` shows them` })

/** Fails unless each given type is a valid pattern. */
export const requirePatterns = (...types: ReadonlyArray<string | undefined>): Effect.Effect<void, Api.Refused> => {
  for (const type of types) {
    const problem = type === undefined ? undefined : Pattern.problem(type)
    if (problem !== undefined) return Effect.fail(new Api.Refused({ message: `the type ${type}: ${problem}` }))
  }
  return Effect.void
}

/** Fails unless each type is a valid pattern and the selected fields can occur together. */
export const requireSelectable = (selection: Api.EventSelection): Effect.Effect<void, Api.Refused> => {
  const { types, outcome, sink, endedSince, endedUntil } = selection
  const isOfSink = sink !== undefined || endedSince !== undefined || endedUntil !== undefined
  return outcome === "unrouted" && isOfSink
    ? Effect.fail(
        new Api.Refused({ message: "unrouted events went to no sink: ask for them without a sink or an end" }),
      )
    : requirePatterns(...(types ?? []))
}
