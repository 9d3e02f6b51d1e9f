/** The config key `journal.searchIds`, which every type of journal has. */
import { Effect, Schema } from "effect"
import { text } from "../../config/schema/Keys.ts"

/** The default pointers. */
export const usualSearchIds: ReadonlyArray<string> = ["/data/object/id", "/data/object/client_id"]

/** Each pointer may add 8 bytes of an event to the index. */
const most = 8
const expected = `a list of 1 to ${most} JSON Pointers`

export const searchIds = Schema.Array(text("A JSON Pointer, such as `/data/object/id`"))
  .check(Schema.isMinLength(1, { expected }), Schema.isMaxLength(most, { expected }))
  .annotate({
    description: "JSON Pointers to the ids that `--object` finds, such as the ids of clients and appointments",
    default: usualSearchIds,
  })
  .pipe(Schema.withDecodingDefaultKey(Effect.succeed(usualSearchIds)))
