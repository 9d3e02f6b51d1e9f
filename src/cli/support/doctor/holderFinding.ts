/**
 * Judges the process that holds a port or the journal while no relay of the config
 * has answered.
 *
 * **Guarantee.** "Stop it" is said only about a relay whose program and config were
 * read. Facts that this user can't see are named, and count as a warning.
 */
import * as FileIdentity from "../../../runtime/FileIdentity.ts"
import * as Holders from "../../../runtime/Holders.ts"
import type { Verdict } from "./Finding.ts"

type Found = readonly [Verdict, string]

/** What is held: a port's address or the journal, and how this config can do without it. */
export interface Held {
  /** The beginning of a sentence: `127.0.0.1:8080 is taken`. */
  readonly what: string
  /** For example `use another port`. */
  readonly otherwise: string
}

const asRoot = (): string => (Holders.seesAll() ? "" : ": run this command as root")

/** Judges `holder`; `file` is the config. */
export const judge = (holder: Holders.Holder | undefined, file: string, { what, otherwise }: Held): Found => {
  if (holder === undefined) {
    return [
      "warning",
      `${what}, by a process that can't be seen here, so it is not known whether it is the relay${asRoot()}`,
    ]
  }
  const by = `${what} by ${holder.words}`
  if (holder.program === undefined) return ["warning", `${by}, whose command can't be read here${asRoot()}`]
  if (!holder.isRelay) return ["wrong", `${by}, which runs ${holder.program} and is not a relay: ${otherwise}`]
  const { config } = holder
  if (config === undefined) return ["warning", `${by}, a relay whose config can't be seen here${asRoot()}`]
  if (FileIdentity.of(config) === FileIdentity.of(file)) return ["ok", `${by}, a relay that runs this config`]
  return ["wrong", `${by}, a relay that runs another config, ${config}: stop it, or ${otherwise}`]
}
