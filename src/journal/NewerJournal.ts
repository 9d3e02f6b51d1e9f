/**
 * The refusal of a journal whose tables a newer relay has changed. Both journals
 * record the version of that relay as `writer`, with the version of the schema.
 */
import { relayVersion } from "../runtime/Version.ts"

/** Anything may be stored there: only what looks like a version is shown. */
const versionLike = /^\d[\w.+-]{0,39}$/

/** Says which relay can use the journal, and what to do where that one is not wanted. */
export const newerJournal = (journal: string, writer: unknown): string => {
  const isKnown = typeof writer === "string" && versionLike.test(writer) && writer !== relayVersion
  const [who, wanted] = isKnown ? [`relay ${writer}`, `relay ${writer} or later`] : ["a newer relay", "that version"]
  return `${who} wrote ${journal}, which is too new for this relay (${relayVersion}): run ${wanted}, or restore a backup from before the upgrade`
}
