/** The dead letters that a selection means, read page by page: none of the reads holds the journal for long. */
import { Effect, Option, Stream } from "effect"
import type { Archive } from "../journal/Archive.ts"
import * as DeadLetterId from "../journal/DeadLetterId.ts"
import type { Filter, Selection } from "./Api.ts"

/** A selection is read and changed in steps of this many. */
export const step = 500

/** The id just above `id`: the page before it begins with `id` itself. */
const justAbove = (id: string): { readonly lane: string; readonly before: string } | undefined => {
  const key = DeadLetterId.parse(id)
  return key && { lane: key.lane, before: DeadLetterId.of(key.lane, key.sequence + 1) }
}

export const of = (archive: Archive["Service"]) => {
  /**
   * Page after page of what a filter selects, downwards by id: a dead letter
   * that is added meanwhile is above the walk and not included. A page has
   * its bodies with it, and so is shorter than `limit` where they are large.
   */
  const pages = (filter: Filter, limit = step, before?: string) =>
    Stream.paginate(before, (before) =>
      Effect.map(archive.deadLetters({ ...filter, ...(before !== undefined && { before }), limit }), (page) => [
        page.length === 0 ? [] : [page],
        Option.map(Option.fromNullishOr(page.at(-1)), ({ id }) => id),
      ]),
    )

  /** One dead letter; `undefined` if none has this id. */
  const find = Effect.fnUntraced(function* (id: string) {
    const above = justAbove(id)
    const [letter] = above === undefined ? [] : yield* archive.deadLetters({ ...above, limit: 1 })
    return letter?.id === id ? letter : undefined
  })

  const all = (selection: Selection) =>
    "ids" in selection
      ? Stream.fromIterable(new Set(selection.ids)).pipe(
          Stream.mapEffect(find),
          Stream.filter((letter) => letter !== undefined),
        )
      : Stream.flatMap(pages(selection), Stream.fromIterable)

  return { pages, find, all }
}
