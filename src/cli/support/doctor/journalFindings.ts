/** Checks who holds the journal: the relay that answers, another process, or nobody. */
import type { JournalFile } from "../../../journal/JournalType.ts"
import * as Holders from "../../../runtime/Holders.ts"
import { type Finding, finder } from "./Finding.ts"
import { judge } from "./holderFinding.ts"

/** `runs`: a relay of this config, whose file is `file`, answers. */
export const holding = ({ path, lock }: Pick<JournalFile, "path" | "lock">, runs: boolean, file: string): Finding => {
  const at = finder("journal", path)
  const holder = Holders.lockHolder(lock)
  if (holder !== undefined) {
    if (runs) return at("ok", `held by the running relay, ${holder.words}`)
    return at(...judge(holder, file, { what: "held", otherwise: 'give this config its own "journal.path"' }))
  }
  return runs
    ? at(
        "warning",
        "held by no process that can be seen here, although the relay runs: it is in a container, or its journal is another",
      )
    : at("ok", "held by no process that can be seen here")
}
