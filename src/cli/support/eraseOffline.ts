/** Erases events in the journal's file while no relay runs on it. */
import { Effect } from "effect"
import { erasure } from "../../admin/AuditedOperations.ts"
import { type Erasure, type ErasureRequest, erase } from "../../admin/api/ErasureApi.ts"
import { Archive } from "../../journal/Archive.ts"
import { storeEnd } from "../../journal/AuditLog.ts"
import * as Journals from "../../journal/Journals.ts"
import { localUser } from "../../runtime/Files.ts"
import { io } from "./CommandError.ts"
import { loadJournal } from "./loadConfig.ts"
import { lazily } from "./Program.ts"

const asIoError = Effect.mapError(({ message }: { readonly message: string }) => io(message))

/** Erases events and rewrites the file, which also clears its free space. A dry run changes nothing. */
export const eraseOffline = Effect.fnUntraced(function* (request: ErasureRequest) {
  const config = yield* loadJournal
  const path = Journals.fileOf(config)?.path
  if (path === undefined) {
    return yield* io(
      "the journal of the config keeps no file: leave out --offline, and have its tables rewritten by `VACUUM FULL`",
    )
  }
  const { what, on, note, isLeftOut } = erasure
  const payload = { payload: request }
  const operation = { who: `user ${localUser()}`, by: "the command line", what, on: on(payload) }
  const erasing = Effect.flatMap(Archive, (archive) => {
    const work = erase({ archive, whileStopped: (_, inside) => inside }, request)
    return isLeftOut(payload) ? work : Effect.onExit(work, storeEnd(archive.audit, operation, note))
  })
  const erased: Erasure = yield* Effect.scoped(Effect.provide(erasing, Journals.layer(config))).pipe(asIoError)
  if (request.dryRun === true) return erased
  const { vacuum } = yield* lazily(Journals.maintenance)
  yield* asIoError(vacuum(path))
  return erased
})
