/** Rules for sinks and for client details. */
import { Duration, type SchemaAST, Struct } from "effect"
import { parsePointer } from "../../event/Pointer.ts"
import { parsedJson } from "../../event/Tolerance.ts"
import * as Jmespath from "../../formats/jmespath/Jmespath.ts"
import * as Template from "../../formats/Template.ts"
import * as Pattern from "../../routing/Pattern.ts"
import { type Address, isLoopback, isWildcard } from "../Address.ts"
import type { LaneConfig } from "../Config.ts"
import { error, errorAtKey, type Finding, formatPath, warning, warningAtKey } from "../diagnostics/Source.ts"
import { type Fields, fields, type Path } from "../Fields.ts"
import { type Lane, usual } from "../schema/ConfigFile.ts"
import {
  type ConfiguredTypes,
  type Recoveries,
  type Types,
  visitSinks,
  writtenJournal,
} from "../schema/ConfiguredTypes.ts"
import { headerNamePattern } from "../schema/Keys.ts"
import { ownFiles, traitOf } from "../schema/Traits.ts"
import { parseAddress } from "../schema/Units.ts"
import { looking, patternRules } from "./RouteRules.ts"
import { isStoreReference } from "./SecretText.ts"
import { deepTexts, nameRules, repeated, shapeRules, texts } from "./ShapeRules.ts"

// Rules for texts that are the same for every event but look like a template or a reference.
//
// **Gotcha.** A finding never repeats the text, because it may contain a secret. It may repeat the
// path of a field.

const filled = "each event gets this text itself: "

/** A JSON Pointer to a field of the envelope. */
const pointer = /^\/(?:id|account_id|version|created_at|data(?:\/[^\s/]+)+)$/
const path =
  /^(?:[$@]\.?|\.|(?:event|envelope|payload|body|this)\.)?(data\.(?:object|type)(?:\.\w[\w-]*)*|account_id|created_at|received_at)$/
/** Words that may be ordinary text. In a `key` they are reported, because one key for all events is rarely intended. */
const words = /^\$?(id|type|resource|webhook)$/
/** A field of the object within a longer text. */
const expression = /(?:^|[^\w./{])data\.object\.\w/

const file =
  /^(?:\w+ )?(?:@?(?:~|\.{1,2})\/|@?\/(?:etc|home|mnt|opt|root|run|secrets|srv|tmp|usr|var)\/)[\w./-]+$|^@[\w./-]+\.\w{2,4}$/

const placeholderOf = (field: string): string =>
  field.includes(".") ? `{{/${field.replaceAll(".", "/")}}}` : `{{${field}}}`

/** Reports a template without placeholders that looks like a reference. `at` is its path. */
const constantRules = (text: string, at: Path): ReadonlyArray<Finding> => {
  if (Template.hasPlaceholder(text)) return []
  if (pointer.test(text)) return [warning(at, `${filled}a JSON Pointer has two braces`, `did you mean {{${text}}}?`)]
  const [, field] = path.exec(text) ?? (at.length === 3 && at[2] === "key" ? words.exec(text) : null) ?? []
  if (field !== undefined) {
    return [warning(at, `${filled}a field has two braces`, `did you mean ${placeholderOf(field)}?`)]
  }
  if (expression.test(text)) {
    const hint = 'write { "jmespath": "…" } where an expression may stand, or placeholders such as {{/data/object/id}}'
    return [warning(at, `${filled}it is not evaluated as an expression`, hint)]
  }
  if (isStoreReference(text.replace(/^\w+ /, "")) || isStoreReference(text)) {
    const hint = 'have a tool write the secret to a file or a variable: "file:PATH" or "${VAR}"'
    return [warning(at, "this refers to a secret store, which the relay doesn't ask: the text itself is sent", hint)]
  }
  if (!file.test(text)) return []
  return [warning(at, `${filled}a file is not read by its path alone`, 'for the file\'s content write "file:PATH"')]
}

/** Placeholders that only templates have, and dates in the syntax of `strftime`. */
const fillings = /\{\{\s*(?:\/[^{}]*|[a-z_.]+)\s*\}\}|%[YmdHMSF](?![\w%])|%Y/

/** Reports text that looks like a template at a key that isn't a template. */
const unfilledRules = (text: string, at: Path): ReadonlyArray<Finding> => {
  const [part] = fillings.exec(text) ?? []
  if (part === undefined) return []
  const hint = "the reference of the sink says which keys may hold placeholders"
  return [warning(at, `nothing is filled in here: ${part} is used as it stands`, hint)]
}

// Rules for the URLs that events are posted to. A finding never repeats the URL, which may be a secret.

const placeholder = /\{\{.*?\}\}/g

const parse = (text: unknown): URL | undefined => {
  const url = typeof text === "string" ? text.replaceAll(placeholder, "x") : ""
  return URL.canParse(url) ? new URL(url) : undefined
}

const portOf = ({ port, protocol }: URL): number => (port === "" ? (protocol === "https:" ? 443 : 80) : Number(port))

/** Reports whether a URL leads to a listener of this relay. */
const isOwn = (url: URL, listener: Address): boolean => {
  const host = url.hostname.replace(/^\[|\]$/g, "")
  const isHere = isLoopback(listener) || isWildcard(listener) ? isLoopback({ host }) : host === listener.host
  return listener.port !== 0 && portOf(url) === listener.port && isHere
}

/**
 * Returns the addresses of the listeners for deliveries and for the admin API; `undefined` for an invalid address.
 */
export const listeners = (root: Fields) =>
  [parseAddress(root.listen ?? usual.listen), parseAddress(fields(root.admin).listen ?? usual.adminListen)] as const

const ownAddressRules = (value: unknown, at: Path, own: ReturnType<typeof listeners>): ReadonlyArray<Finding> => {
  const url = parse(value)
  if (url === undefined || !own.some((listener) => listener !== undefined && isOwn(url, listener))) return []
  return [warning(at, "this is the relay's own address: it would send its events to itself", "name the receiver's")]
}

/** The hosts and paths of a service's URLs. A host that begins with a dot includes all its subdomains. */
interface Known {
  readonly hosts: ReadonlyArray<string>
  readonly paths: ReadonlyArray<string>
  readonly retired: Readonly<Record<string, string>>
}

const isOf = (host: string, known: string): boolean => (known.startsWith(".") ? host.endsWith(known) : host === known)

/** Finds a URL whose host or path is not the service's. A URL of this machine is allowed, for tests. */
const serviceRules = (value: unknown, at: Path, { hosts, paths, retired }: Known): ReadonlyArray<Finding> => {
  const url = parse(value)
  if (url === undefined || isLoopback({ host: url.hostname.replace(/^\[|\]$/g, "") })) return []
  const host = url.hostname.toLowerCase()
  const [, todo] = Object.entries(retired).find(([known]) => isOf(host, known)) ?? []
  if (todo !== undefined) return [warning(at, "the service has retired the addresses of this host", todo)]
  if (hosts.some((known) => isOf(host, known))) {
    if (paths.length === 0 || paths.some((path) => url.pathname.startsWith(path))) return []
    return [warning(at, "no URL of the service's has this path", `theirs begin with ${paths.join(", ")}`)]
  }
  const theirs = hosts.map((known) => (known.startsWith(".") ? `*${known}` : known)).join(", ")
  return [warning(at, "this is not a URL of the service's: it is of another host", `the service's are at ${theirs}`)]
}

const isJson = (text: string): boolean => /^\s*[{[]/.test(text) && parsedJson(text) !== undefined

const templateRules = (value: unknown, path: Path, schema: SchemaAST.AST): ReadonlyArray<Finding> => {
  const ofAlert = traitOf(schema, "ofAlert")
  if (Jmespath.isShape(value)) return shapeRules(value, path, ofAlert)
  if (path.at(-1) === "body" && typeof value === "string" && isJson(Template.withoutPlaceholders(value, "0"))) {
    const hint = 'write the JSON itself, without the quotes around it: "body": { "text": "{{type}}" }'
    return [warning(path, "this is JSON in a text, so receivers get a JSON string and no object", hint)]
  }
  return deepTexts(value, path).flatMap(({ path, text }) => {
    const problem = Template.problem(text, ofAlert, traitOf(schema, "placeholders"))
    if (problem !== undefined) return [error(path, problem)]
    const unfilled = Template.unfilled(text)
    if (unfilled === undefined) return constantRules(text, path)
    const { written, field } = unfilled
    return [warning(path, `{${written}} is not filled in`, `a placeholder has two braces: {{${field}}}`)]
  })
}

const headerRules = (headers: Fields, at: Path): ReadonlyArray<Finding> =>
  Object.keys(headers).flatMap((header) =>
    headerNamePattern.test(header)
      ? []
      : [errorAtKey([...at, header], "this is not a header name", "letters, digits and dashes")],
  )

/** Finds incomplete groups of keys, such as only one of the two files of a client certificate. */
const togetherRules = (keys: ReadonlyArray<string>, value: Fields, at: Path): ReadonlyArray<Finding> => {
  const missing = keys.filter((key) => value[key] === undefined)
  if (missing.length === keys.length) return []
  return missing.map((key) =>
    error([...at, key], `the key "${key}" is missing`, `${keys.map((one) => `"${one}"`).join(" and ")} go together`),
  )
}

/** Applies the rules that follow from the traits in the schemas. */
const traitRules = (root: Fields, types: Types): ReadonlyArray<Finding> => {
  const found: Array<Finding> = []
  const own = listeners(root)
  const look = looking(root)
  visitSinks(root, types, (schema, value, path) => {
    if (traitOf(schema, "postsTo") === true) found.push(...ownAddressRules(value, path, own))
    const hosts = traitOf(schema, "hosts")
    if (hosts !== undefined) {
      const [paths, retired] = [traitOf(schema, "paths") ?? [], traitOf(schema, "retired") ?? {}]
      found.push(...serviceRules(value, path, { hosts, paths, retired }))
    }
    const isTemplate = traitOf(schema, "template") === true
    if (isTemplate) found.push(...templateRules(value, path, schema))
    else if (typeof value === "string" && schema._tag === "String" && traitOf(schema, "shown") === true) {
      if (path.at(-1) !== "jmespath") found.push(...unfilledRules(value, path))
    }
    if (traitOf(schema, "patterns") === true)
      found.push(...texts(value, path).flatMap((one) => patternRules(one, look)))
    if (traitOf(schema, "headerNames") === true) found.push(...headerRules(fields(value), path))
    found.push(...togetherRules(traitOf(schema, "together") ?? [], fields(value), path))
  })
  return found
}

const plain = (path: string): string => path.replaceAll(/\/(\.?\/)+/g, "/").replace(/^\.\//, "")

/** Identifies files, because two paths may lead to the same file. */
export interface FileIdentity {
  readonly fileOf?: (path: string) => string
}

/** Checks that each file has one writer, because two would damage each other's lines or the journal. */
export const fileRules = (root: Fields, types: Types & FileIdentity): ReadonlyArray<Finding> => {
  const { fileOf = plain } = types
  const journal = fields(root.journal)
  const files = ownFiles(writtenJournal(root, types)).flatMap(([key, usual, beside]) =>
    texts(journal[key] ?? usual, ["journal", key]).flatMap(({ path, text }) =>
      ["", ...beside].map((suffix) => ({ path, text: text + suffix, suffix })),
    ),
  )
  visitSinks(root, types, (schema, value, path) => {
    if (traitOf(schema, "ownFile") === true) files.push(...texts(value, path).map((one) => ({ ...one, suffix: "" })))
  })
  return repeated(files, ({ text }) => fileOf(text)).map(([again, first]) =>
    error(
      again.path,
      first.suffix === ""
        ? `${formatPath(first.path)} is the same file`
        : `this is a file of the journal's own: that of ${formatPath(first.path)} with ${first.suffix}`,
      "give each a file of its own",
    ),
  )
}

export const sinkRules = (root: Fields, types: Types): ReadonlyArray<Finding> => {
  const sinks = fields(root.sinks)
  const adopted = Object.entries(sinks).flatMap(([name, sink]) =>
    texts(fields(sink).renamedFrom, ["sinks", name, "renamedFrom"]),
  )
  const kept = adopted.filter(({ text }) => Object.hasOwn(sinks, text))
  return [
    ...Object.keys(sinks).flatMap((name) => nameRules(name, ["sinks", name], "sink")),
    ...traitRules(root, types),
    ...kept.map(({ path, text }) =>
      error(path, `the sink "${text}" still exists, so nothing was renamed`, "remove this key, or the other sink"),
    ),
    ...repeated(adopted, ({ text }) => text).map(([again, first]) =>
      error(
        again.path,
        `${formatPath(first.path)} takes over the same sink`,
        "only one can take over what is pending there",
      ),
    ),
  ]
}

/** Checks that client details have an API, and valid patterns and pointers. */
export const clientRules = (root: Fields): ReadonlyArray<Finding> => {
  const asking = Object.entries(fields(root.sinks)).filter(([, sink]) => fields(sink).enrich !== undefined)
  if (root.clients === undefined) {
    const hint = 'add the sender\'s API: "clients": { "baseUrl": "https://…" }'
    return asking.map(([name]) =>
      errorAtKey(["sinks", name, "enrich"], '"enrich" requires "clients", which is missing', hint),
    )
  }
  const events = Object.entries(fields(fields(root.clients).events)).flatMap(([pattern, pointer]) => {
    const at: Path = ["clients", "events", pattern]
    const problem = Pattern.problem(pattern)
    return [
      ...(problem === undefined ? [] : [errorAtKey(at, problem)]),
      ...(typeof pointer === "string" && parsePointer(pointer) === undefined
        ? [error(at, "this is not a JSON Pointer", "such as /data/object/client_id")]
        : []),
    ]
  })
  if (asking.length > 0) return events
  const hint = 'add "enrich": "deliver" to a sink, or remove "clients"'
  return [...events, warningAtKey(["clients"], "no sink asks for client details", hint)]
}

// How a sink's events are grouped: kept in order by `key`, or made messages by a policy, which `alert`, `digest` and
// `resolve` decode to. All of them use the lane's only key, so combinations that conflict are refused here.

type Grouping = Pick<LaneConfig, "order" | "key" | "alert">

/** A lane's config and its path. `given` are the keys that the file has there. */
interface Asked {
  readonly lane: typeof Lane.Type
  readonly given: ReadonlySet<string>
  readonly path: Path
}

/** Checks `digest`, `alert` and `enrich`. They change the payload, so only a sink that composes its messages can have them. */
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
    ...(lane.alert === undefined ? [] : [cannot("alert", "send each event by itself and can't make an alert")]),
    ...(lane.enrich === undefined ? [] : [cannot("enrich", "send events unchanged, and can't add to them")]),
  ]
}

const eitherHint = 'remove one, or add a second sink with the same target: one with "alert", and one with "digest"'

/** Checks the limits of a digest, and that a sink has no alerts beside it. */
const digestRules = ({ lane, path }: Asked): ReadonlyArray<Finding> => {
  const { digest, alert, backlog, delivery } = lane
  if (digest === undefined) return []
  const found: Array<Finding> = []
  if (alert !== undefined) found.push(errorAtKey([...path, "digest"], "a sink has a digest or alerts", eitherHint))
  if (backlog?.whenFull === "deadLetter") {
    const message = 'a digest is sent or abandoned as a whole, so its backlog can only "refuse"'
    found.push(error([...path, "backlog"], message))
  }
  if (digest.maxEvents > delivery.maxRetrying) {
    const message = '"maxEvents" exceeds "delivery.maxRetrying", so the digest never fills'
    found.push(error([...path, "digest", "maxEvents"], message, "raise one, or lower the other"))
  }
  return found
}

/** Checks the fields that the policy's keys name. */
const fieldRules = ({ lane: { digest, alert }, path }: Asked): ReadonlyArray<Finding> =>
  [
    [digest?.by, "digest", "by"] as const,
    [alert?.by, "alert", "by"] as const,
    [alert?.inhibitedBy?.by, "alert", "inhibitedBy", "by"] as const,
  ].flatMap(([names = [], ...at]) =>
    names.flatMap((name, index) => {
      const problem = Template.fieldProblem(name)
      return problem === undefined ? [] : error([...path, ...at, index], problem)
    }),
  )

/** Checks that a sink with `alert.update` can change its messages, and that a sink with `update` has alerts. */
const updateRules = ({ lane, given, path }: Asked, updates: boolean): ReadonlyArray<Finding> => {
  if (updates && lane.alert === undefined && given.has("update")) {
    return [
      errorAtKey(
        [...path, "update"],
        "this request is never sent, because the sink has no alerts that can change",
        'add "alert": {}',
      ),
    ]
  }
  return updates || lane.alert?.update === undefined
    ? []
    : [errorAtKey([...path, "alert", "update"], "this sink can't change a message that it has sent", updateHint)]
}

const updateHint = 'remove it, or use an "http" sink with "update", or a "slack" sink with "token"'

/** Checks that a sink whose policy has a key has no other one. `owner` says whose key it is. */
const ownKeyRules = ({ given, path }: Asked, owner: string): ReadonlyArray<Finding> =>
  ["order", "key"].flatMap((key) => (given.has(key) ? errorAtKey([...path, key], owner, "remove this key") : []))

/** Checks that all fields of the key are equal within a group. Otherwise a recovery could not find its alert. */
const recoveryRules = ({ askedBy, ownKey }: Recoveries<unknown>, template: string, { lane, path }: Asked) => {
  const by = lane.digest?.by ?? lane.alert?.by
  const name = lane.digest === undefined ? "alert.by" : "digest.by"
  const missing = [...new Set(Template.names(template))].filter((name) => by?.includes(name) === false)
  if (missing.length === 0) return []
  const other = ownKey === undefined ? "" : `, or give the alert a "${ownKey}" of its fields`
  const message = `a recovery would not find its alert: the alert's key needs ${missing.join(" and ")}, which "${name}" leaves out`
  return [errorAtKey([...path, askedBy], message, `add it to "${name}"${other}`)]
}

/** Returns the policy of a sink's `alert`, `digest` or `resolve`, or `undefined` if it has none of them. */
const policyOf = (
  { digest, alert }: typeof Lane.Type,
  resolves: boolean,
  updates: boolean,
  incidents: boolean,
): LaneConfig["alert"] => {
  if (digest !== undefined) return { ...Struct.omit(digest, ["by"]), sends: "digest", resolves }
  if (alert === undefined) return resolves ? { sends: "each", resolves } : undefined
  const { by: _, update = Duration.minutes(1), ...rest } = alert
  return { ...rest, ...(updates && { update }), ...(incidents && { incidents }), sends: "changes", resolves }
}

/** Returns how the lane groups events, the sink's own config for that, and the findings. */
export const groupingOf = (
  type: string,
  sinkTypes: ConfiguredTypes,
  config: unknown,
  asked: Asked,
): { readonly findings: ReadonlyArray<Finding>; readonly grouping: Grouping; readonly config: unknown } => {
  const { digest, alert, order, key } = asked.lane
  const messages = sinkTypes[type]?.messages
  const composes = messages !== undefined && (messages.composes?.(config) ?? true)
  const { recoveries } = messages ?? {}
  const resolves = recoveries?.isOn(config) === true
  const updates = messages?.updates?.(config) === true
  const policy = policyOf(asked.lane, resolves, updates, messages?.incidents?.(config) === true)
  const by = digest?.by ?? alert?.by
  const owners = {
    each: `"${recoveries?.askedBy}" keeps the order of its own key`,
    digest: 'a digest has its own key: "digest.by"',
    changes: 'an alert has its own key: "alert.by"',
  }
  const findings = [
    ...(composes ? [] : composerRules(type, sinkTypes, asked)),
    ...(policy === undefined ? [] : ownKeyRules(asked, owners[policy.sends])),
    ...digestRules(asked),
    ...fieldRules(asked),
    ...updateRules(asked, updates),
    ...(resolves ? recoveryRules(recoveries, recoveries.key(config), asked) : []),
  ]
  if (policy === undefined) return { findings, grouping: { order, key }, config }
  const shared = by === undefined ? (recoveries?.key(config) ?? "{{account_id}}") : Template.keyOfFields(by)
  const grouping: Grouping = { order: policy.sends === "digest" ? "none" : "key", key: shared, alert: policy }
  const isGrouped = policy.sends !== "each"
  return { findings, grouping, config: (isGrouped && messages?.ofDigests?.(config, shared)) || config }
}
