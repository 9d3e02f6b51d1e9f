/**
 * The refusal of a journal whose schema a newer relay has changed. Both journals record that relay's version as
 * `writer`, with the version of the schema.
 */
import { relayVersion } from "../../runtime/Version.ts"

/** Only a string that looks like a version is shown, because anything may be stored there. */
const versionLike = /^\d[\w.+-]{0,39}$/

/** Names a relay that can use the journal, and the alternative to running it. */
export const newerJournal = (journal: string, writer: unknown): string => {
  const isKnown = typeof writer === "string" && versionLike.test(writer) && writer !== relayVersion
  const [who, wanted] = isKnown ? [`relay ${writer}`, `relay ${writer} or later`] : ["a newer relay", "that version"]
  return `${who} wrote ${journal}, which is too new for this relay (${relayVersion}): run ${wanted}, or restore a backup from before the upgrade`
}
