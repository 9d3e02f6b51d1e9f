/** Checks who holds the journal: the relay that answers, another process, or nobody. */
import type { JournalFile } from "../../../journal/JournalType.ts"
import * as Holders from "../../../runtime/Holders.ts"
import { type Finding, finder } from "./Finding.ts"

/** `runs`: a relay of this config answers. */
export const holding = ({ path, lock }: Pick<JournalFile, "path" | "lock">, runs: boolean): Finding => {
  const at = finder("journal", path)
  const holder = Holders.ofLock(lock)
  if (holder !== undefined) {
    return runs
      ? at("ok", `held by the running relay, ${holder}`)
      : at(
          "wrong",
          `${holder} holds it, and no relay of this config answers: a relay with another config, or one that hangs; stop it, or give this config its own "journal.path"`,
        )
  }
  return runs
    ? at(
        "warning",
        "held by no process that can be seen here, although the relay runs: it is in a container, or its journal is another",
      )
    : at("ok", "held by no process that can be seen here")
}
