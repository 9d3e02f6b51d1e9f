/**
 * What of a sink's events belongs together: by `order` and `key`, by `digest`,
 * or because the sink is told when a failure is over (`resolve`). Three wishes,
 * one key; what can't be had together is said here.
 */
import * as Template from "../../formats/Template.ts"
import type { LaneConfig } from "../Config.ts"
import { error, type Finding, type Path } from "../diagnostics/Source.ts"
import type { Lane } from "../schema/ConfigFile.ts"

/** What a sink's type, given its config, can do with events that belong together. */
export interface Abilities {
  /** What it sends is a message of its own making: it can tell of many events, and of more than the event. */
  readonly composes: boolean
  /** The template of the key that a failure and its recovery share; absent where recoveries are not asked for. */
  readonly resolves: string | undefined
}

/** Who sends an event's own bytes, or many of them, one by one. */
const plainly = (type: string): string => (type === "http" ? 'with this "format" an http sink' : `a ${type} sink`)
const composers = 'alert services do, and http with "format": "template"'

export type Grouping = Pick<LaneConfig, "order" | "key" | "digest" | "resolves">

const placeholders = (names: ReadonlyArray<string>): string => names.map((name) => `{{${name}}}`).join("/")

const digestRules = (
  lane: typeof Lane.Type,
  given: ReadonlySet<string>,
  composes: boolean,
  type: string,
  path: Path,
) => {
  const { digest, backlog, delivery } = lane
  if (digest === undefined) return []
  const at = [...path, "digest"]
  const found: Array<Finding> = []
  if (!composes) {
    found.push(error(at, `${plainly(type)} sends each event by itself and can't make a digest`, composers, "key"))
  }
  for (const key of ["order", "key"]) {
    if (!given.has(key)) continue
    found.push(error([...path, key], 'a digest has its own key: "digest.by"', "take this key out", "key"))
  }
  if (backlog?.whenFull === "deadLetter") {
    found.push(error([...path, "backlog"], 'a digest is sent or given up as a whole: its backlog can only "refuse"'))
  }
  if (digest.maxEvents > delivery.maxRetrying) {
    found.push(
      error(
        [...at, "maxEvents"],
        'a digest of so many never fills: "delivery.maxRetrying" is less',
        "raise that, or lower this",
      ),
    )
  }
  for (const [index, name] of digest.by.entries()) {
    const problem = Template.fieldProblem(name)
    if (problem !== undefined) found.push(error([...at, "by", index], problem))
  }
  return found
}

/** A recovery can only find its alert when all that its key is made of is the same throughout a digest. */
const resolveRules = (
  by: ReadonlyArray<string> | undefined,
  resolves: string,
  given: ReadonlySet<string>,
  path: Path,
) => {
  if (by === undefined) {
    return ["order", "key"].flatMap((key) =>
      given.has(key)
        ? error([...path, key], '"resolve" keeps the order of its own key', "take this key out", "key")
        : [],
    )
  }
  const missing = [...new Set(Template.names(resolves))].filter((name) => !by.includes(name))
  return missing.length === 0
    ? []
    : [
        error(
          [...path, "resolve"],
          `a recovery would not find its alert: the alert's key needs ${missing.join(" and ")}, which "digest.by" leaves out`,
          'add it to "digest.by", or give the alert a "dedupKey" of what is there',
          "key",
        ),
      ]
}

/** What the lane is to do, and what is wrong with it. `given` are the keys that the sink's config holds. */
export const of = (
  type: string,
  lane: typeof Lane.Type,
  given: ReadonlySet<string>,
  { composes, resolves }: Abilities,
  path: Path,
): { readonly findings: ReadonlyArray<Finding>; readonly grouping: Grouping } => {
  const { digest, order, key } = lane
  const findings = [
    ...digestRules(lane, given, composes, type, path),
    ...(lane.enrich === undefined || composes
      ? []
      : [
          error(
            [...path, "enrich"],
            `${plainly(type)} sends events as they came, and can't add to them`,
            composers,
            "key",
          ),
        ]),
    ...(resolves === undefined ? [] : resolveRules(digest?.by, resolves, given, path)),
  ]
  const recovering = resolves === undefined ? {} : { resolves: true }
  if (digest !== undefined) {
    const { by, ...window } = digest
    return { findings, grouping: { order: "none", key: placeholders(by), digest: window, ...recovering } }
  }
  return {
    findings,
    grouping: resolves === undefined ? { order, key } : { order: "key", key: resolves, ...recovering },
  }
}
