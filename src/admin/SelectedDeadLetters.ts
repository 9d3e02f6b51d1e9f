/** Reads the selected dead letters page by page, so that no read blocks the journal for long. */
import { Effect, Option, Stream } from "effect"
import type { Archive } from "../journal/Archive.ts"
import * as DeadLetterId from "../journal/DeadLetterId.ts"
import { matchOf } from "../journal/EventQuery.ts"
import type { StoredDeadLetter } from "../journal/LaneInfo.ts"
import type { LetterSelection, Selection } from "./Api.ts"

/** The number of dead letters that are read and changed at a time. */
export const step = 500

/** Returns the id just above `id`, so that the page before it begins with `id` itself. */
const justAbove = (id: string): { readonly lane: string; readonly before: string } | undefined => {
  const key = DeadLetterId.parse(id)
  return key && { lane: key.lane, before: DeadLetterId.of(key.lane, key.sequence + 1) }
}

/** Sorts ids of dead letters, newest first, without repetitions. */
export const newestFirst = (ids: ReadonlyArray<string>): ReadonlyArray<string> =>
  [...new Set(ids)].sort((a, b) => (DeadLetterId.parse(b)?.sequence ?? 0) - (DeadLetterId.parse(a)?.sequence ?? 0))

const isSelectedBy = (selection: LetterSelection) => {
  const match = matchOf({ ...selection, limit: 1 })
  return ({ lane, sequence, at, attempts, entry: { event, sinks } }: StoredDeadLetter) =>
    match.event(sequence, event, sinks) && match.deliveries([{ sink: lane, outcome: "dead", at, attempts }])
}

export const of = (archive: Archive["Service"]) => {
  /**
   * Streams the selected dead letters, in descending order of id. A dead letter that is added in the meantime has a
   * higher id and is not included. The first read has at most `first` entries. A page includes the bodies, so it is
   * shorter than its limit if they are large. Only an empty page is the end.
   */
  const matching = (selection: LetterSelection, first = step, before?: string) => {
    const { sink, types = [] } = selection
    const [type, ...others] = types
    const query = {
      ...(sink !== undefined && { lane: sink }),
      ...(others.length === 0 && type !== undefined && { type }),
    }
    return Stream.paginate({ before, limit: first }, ({ before, limit }) =>
      Effect.map(archive.deadLetters({ ...query, ...(before !== undefined && { before }), limit }), (page) => [
        page,
        Option.map(Option.fromNullishOr(page.at(-1)), ({ id }) => ({ before: id, limit: step })),
      ]),
    ).pipe(Stream.filter(isSelectedBy(selection)))
  }

  /** Returns a dead letter, or `undefined` if none has this id. */
  const find = Effect.fnUntraced(function* (id: string) {
    const above = justAbove(id)
    const [letter] = above === undefined ? [] : yield* archive.deadLetters({ ...above, limit: 1 })
    return letter?.id === id ? letter : undefined
  })

  /** Newest first. */
  const all = (selection: Selection) =>
    "ids" in selection
      ? Stream.fromIterable(newestFirst(selection.ids)).pipe(
          Stream.mapEffect(find),
          Stream.filter((letter) => letter !== undefined),
        )
      : matching(selection)

  return { matching, find, all }
}
