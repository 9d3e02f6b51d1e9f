/**
 * How a sink's events are grouped: kept in order by `key`, sent together by
 * `digest`, or paired with the recovery that ends a failure (`resolve`). All
 * three use the one key of a lane; what excludes each other is refused here.
 */
import * as Template from "../../formats/Template.ts"
import type { LaneConfig } from "../Config.ts"
import { error, errorAtKey, type Finding, type Path } from "../diagnostics/Source.ts"
import type { Lane } from "../schema/ConfigFile.ts"
import type { ConfiguredTypes, Recoveries } from "../schema/ConfiguredTypes.ts"

export type Grouping = Pick<LaneConfig, "order" | "key" | "digest" | "resolves">

/** The grouping of a config, and where it stands. `given` are the keys that are written there. */
interface Asked {
  readonly lane: typeof Lane.Type
  readonly given: ReadonlySet<string>
  readonly path: Path
}

const placeholders = (names: ReadonlyArray<string>): string => names.map((name) => `{{${name}}}`).join("/")

/** `digest` and `enrich` change what is sent: only a sink that composes its messages can have them. */
const composerRules = (type: string, sinkTypes: ConfiguredTypes, { lane, path }: Asked): ReadonlyArray<Finding> => {
  const phrase = (type: string, verb: string) => {
    const needs = sinkTypes[type]?.messages?.with
    return `${type}${verb}${needs === undefined ? "" : ` with${verb === "" ? "" : "out"} ${needs}`}`
  }
  const others = Object.keys(sinkTypes).filter((type) => sinkTypes[type]?.messages !== undefined)
  const hint = `these can: ${others.map((type) => phrase(type, "")).join(", ")}`
  const cannot = (key: string, why: string) => errorAtKey([...path, key], `${phrase(type, " sinks")} ${why}`, hint)
  return [
    ...(lane.digest === undefined ? [] : [cannot("digest", "send each event by itself and can't make a digest")]),
    ...(lane.enrich === undefined ? [] : [cannot("enrich", "send events unchanged, and can't add to them")]),
  ]
}

const digestRules = ({ lane, given, path }: Asked): ReadonlyArray<Finding> => {
  const { digest, backlog, delivery } = lane
  if (digest === undefined) return []
  const at = [...path, "digest"]
  const found: Array<Finding> = []
  for (const key of ["order", "key"]) {
    if (!given.has(key)) continue
    found.push(errorAtKey([...path, key], 'a digest has its own key: "digest.by"', "remove this key"))
  }
  if (backlog?.whenFull === "deadLetter") {
    const message = 'a digest is sent or abandoned as a whole, so its backlog can only "refuse"'
    found.push(error([...path, "backlog"], message))
  }
  if (digest.maxEvents > delivery.maxRetrying) {
    const message = '"maxEvents" exceeds "delivery.maxRetrying", so the digest never fills'
    found.push(error([...at, "maxEvents"], message, "raise one, or lower the other"))
  }
  for (const [index, name] of digest.by.entries()) {
    const problem = Template.fieldProblem(name)
    if (problem !== undefined) found.push(error([...at, "by", index], problem))
  }
  return found
}

/** A recovery can only find its alert when all that its key is made of is the same throughout a digest. */
const recoveryRules = ({ askedBy, ownKey }: Recoveries<unknown>, template: string, { lane, given, path }: Asked) => {
  const by = lane.digest?.by
  if (by === undefined) {
    return ["order", "key"].flatMap((key) =>
      given.has(key)
        ? errorAtKey([...path, key], `"${askedBy}" keeps the order of its own key`, "remove this key")
        : [],
    )
  }
  const missing = [...new Set(Template.names(template))].filter((name) => !by.includes(name))
  if (missing.length === 0) return []
  const other = ownKey === undefined ? "" : `, or give the alert a "${ownKey}" of its fields`
  const message = `a recovery would not find its alert: the alert's key needs ${missing.join(" and ")}, which "digest.by" leaves out`
  return [errorAtKey([...path, askedBy], message, `add it to "digest.by"${other}`)]
}

/** How the lane groups events, the sink's own config for that, and what is wrong. */
export const of = (
  type: string,
  sinkTypes: ConfiguredTypes,
  config: unknown,
  asked: Asked,
): { readonly findings: ReadonlyArray<Finding>; readonly grouping: Grouping; readonly config: unknown } => {
  const { digest, order, key } = asked.lane
  const messages = sinkTypes[type]?.messages
  const composes = messages !== undefined && (messages.composes?.(config) ?? true)
  const recoveryKey = messages?.recoveries?.key(config)
  const findings = [
    ...(composes ? [] : composerRules(type, sinkTypes, asked)),
    ...digestRules(asked),
    ...(messages?.recoveries === undefined || recoveryKey === undefined
      ? []
      : recoveryRules(messages.recoveries, recoveryKey, asked)),
  ]
  const recovering = recoveryKey === undefined ? {} : { resolves: true }
  if (digest !== undefined) {
    const { by, ...window } = digest
    const shared = placeholders(by)
    const grouping: Grouping = { order: "none", key: shared, digest: window, ...recovering }
    return { findings, grouping, config: messages?.ofDigests?.(config, shared) ?? config }
  }
  const grouping: Grouping =
    recoveryKey === undefined ? { order, key } : { order: "key", key: recoveryKey, ...recovering }
  return { findings, grouping, config }
}
