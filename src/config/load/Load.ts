/**
 * Loads `relay.config.json`: reads, resolves, decodes, checks.
 *
 * **Guarantee.** All mistakes in the file are reported together in a `ConfigError`,
 * each with its position, key and hint. A config that loads is complete, and its
 * secrets are `Redacted`.
 */
import { Clock, Duration, Effect, PlatformError, Predicate, Result, Schema, Struct } from "effect"
import { isObject as isFields } from "effect/Predicate"
import { eventLoop } from "../../event/EventLoop.ts"
import { nearest } from "../../event/Nearest.ts"
import { inSlices } from "../../event/Rounds.ts"
import * as Jmespath from "../../formats/jmespath/Jmespath.ts"
import { type Sender, senders } from "../../routing/Foreign.ts"
import type { Certificate } from "../Certificate.ts"
import {
  type AdminConfig,
  type JournalConfig,
  type LaneConfig,
  onlyToken,
  type RelayConfig,
  type SilentAfter,
  type Webhook,
} from "../Config.ts"
import { ConfigError, type Diagnostic } from "../diagnostics/Diagnostic.ts"
import { type Decoded, decode, didYouMean, keysOf } from "../diagnostics/Issues.ts"
import { error, errorAtKey, type Finding, formatPath, parse, type Source, warning } from "../diagnostics/Source.ts"
import { type Fields, fields, items, type Path, valueAt } from "../Fields.ts"
import * as Rules from "../rules/Rules.ts"
import { type FileIdentity, groupingOf } from "../rules/SinkRules.ts"
import type { HeaderLimit } from "../rules/WebhookRules.ts"
import { Admin, ConfigFile, Delivery, deliveryKey, Lane, Route } from "../schema/ConfigFile.ts"
import {
  type ConfiguredType,
  journalSchema,
  mayBeShown,
  schemaAt,
  type Types,
  typeOf,
} from "../schema/ConfiguredTypes.ts"
import { examplesOf, meantBy, written as writtenSchema } from "../schema/Traits.ts"
import * as CertificateFiles from "./CertificateFiles.ts"
import { installedFile, missing, read, readDefault } from "./ConfigText.ts"
import { type Environment, isCredential, referencesIn, resolve, type StandIn } from "./References.ts"

// Defaults from the environment, set by an image or a service. The file's keys override them.

/** The variables with the defaults of the keys of `drain`. */
const variables = { delay: "RELAY_DRAIN_DELAY", refuse: "RELAY_DRAIN_REFUSE" }

/** Returns the file with a reference for each key of `drain` that is absent there and set in the environment. */
const withDefaults = (root: Fields, env: Environment["env"]): Fields => {
  const given = Object.entries(variables).filter(([, name]) => Object.hasOwn(env, name) && env[name] !== "")
  // Any other value of `drain` is an error, which the schema reports.
  if (given.length === 0 || !Predicate.isObject(root.drain ?? {})) return root
  const defaults = Object.fromEntries(given.map(([key, name]) => [key, `\${${name}}`]))
  return { ...root, drain: { ...defaults, ...fields(root.drain) } }
}

// Sample texts for absent variables and files, so that a config can be checked without its secrets,
// such as in CI or on a laptop.

/** Replaces absent values by words. If the key doesn't accept the result, uses one of the key's examples. */
const standIns = (config: unknown, types: Types): StandIn => {
  const at = schemaAt(types)
  return (text, path) => {
    const ast = at(path, config)
    if (ast === undefined) return text
    const isTaken = Schema.is(Schema.make<Schema.Constraint>(ast))
    return [text, ...examplesOf(ast)].find((one) => isTaken(one))
  }
}

// The tokens of the admin API in the config's file, before any secret is read.

/** A token in the file. Its secret may be an unresolved reference. */
interface WrittenToken {
  readonly name: unknown
  readonly value: unknown
  /** The admin section with this token, in which the secrets of other tokens are left out. */
  readonly alone: unknown
}

const writtenTokens = (admin: unknown): ReadonlyArray<WrittenToken> => {
  const { token, tokens } = fields(admin)
  const named = items(tokens).map((one, index) => {
    const { name, value } = fields(one)
    const others = items(tokens).map((other, at) => (at === index ? one : { ...fields(other), value: "unread" }))
    return { name, value, alone: { ...fields(admin), tokens: others } }
  })
  return token === undefined ? named : [{ name: onlyToken, value: token, alone: admin }, ...named]
}

// The credentials of a relay that a package installed, for commands outside its service. systemd
// passes the directory of the credentials only to the service.

/** The directory from which the packaged unit loads credentials. Only root may read it. */
const installedDirectory = "/etc/relay/secrets"

/** Facts about the host's service, for commands. */
interface Host extends FileIdentity {
  /** Returns the file of each credential that the unit loads, or `undefined` if they aren't known. */
  readonly unitCredentials?: () => ReadonlyMap<string, string> | undefined
}

const isInstalled = (file: string, { env, fileOf = (path) => path }: Environment & Host): boolean =>
  env.CREDENTIALS_DIRECTORY === undefined && fileOf(file) === fileOf(installedFile)

const notLoaded = (path: string) =>
  PlatformError.systemError({ _tag: "NotFound", module: "FileSystem", method: "readFile", pathOrDescriptor: path })

/** Adds the credentials that the unit loads, if the file is the installed config and no other directory is given. */
const withInstalled = <E extends Environment & Host>(file: string, options: E): E => {
  if (!isInstalled(file, options)) return options
  const files = options.unitCredentials?.()
  const readFile: Environment["readFile"] = (path, most) => {
    const name = path.startsWith(`${installedDirectory}/`) ? path.slice(installedDirectory.length + 1) : undefined
    if (files === undefined || name === undefined) return options.readFile(path, most)
    const source = files.get(name)
    return source === undefined ? Effect.fail(notLoaded(path)) : options.readFile(source, most)
  }
  return { ...options, readFile, env: { ...options.env, CREDENTIALS_DIRECTORY: installedDirectory } }
}

/** Reports whether this process may look into the directory of the credentials. */
const mayReadInstalled = (file: string, options: Environment & Host): Effect.Effect<boolean> =>
  isInstalled(file, options)
    ? Effect.map(
        // A user who may not read the directory may still see that it exists.
        Effect.result(options.readFile(`${installedDirectory}/.`)),
        (read) => Result.isSuccess(read) || read.failure.reason._tag !== "PermissionDenied",
      )
    : Effect.succeed(true)

export interface LoadOptions extends Environment, Types, Host, HeaderLimit {
  /**
   * Continues without absent variables and files, for checks. With `credentials`, continues only without the service's
   * credentials. Such a config is never run.
   */
  readonly mayLack?: boolean | "credentials"
  /**
   * Whether a command outside the service reads an installed relay's credentials from the directory that keeps them.
   */
  readonly readsInstalled?: boolean
}

/** A certificate that can't be used or has expired. */
export interface CertificateFault extends Diagnostic {
  /** The certificate's fingerprint, if only its time is wrong. */
  readonly fingerprint?: string
}

/** A value that is absent here and was replaced by a sample. */
export interface Absent {
  readonly path: Path
  readonly key: string
  /** The variable or file, and the reason. */
  readonly message: string
  /** The text for people: `${NAME} (not set)`; absent for a certificate's file. */
  readonly shown?: string
}

export interface Loaded {
  /** The file as the user named it; `the embedded defaults` if there is none. */
  readonly file: string
  readonly config: RelayConfig
  readonly warnings: ReadonlyArray<Diagnostic>
  /** Returns the line of a key, or `undefined` if the file does not have it. */
  readonly lineOf: (path: Path) => number | undefined
  /** Unusable certificates of sinks, and all expired certificates. Checks report them as errors. The relay runs without them. */
  readonly certificateFaults: ReadonlyArray<CertificateFault>
  /** Empty without `mayLack`, because an absent value is then an error. */
  readonly absent: ReadonlyArray<Absent>
}

const pick = (value: Readonly<Record<string, unknown>>, keys: ReadonlyArray<string>) =>
  Object.fromEntries(Object.entries(value).filter(([key]) => keys.includes(key)))

/** Merges `over` into `base` key by key, as a sink's `delivery` overrides the common one. */
const merge = (base: unknown, over: unknown): unknown => {
  if (!isFields(base) || !isFields(over)) return over === undefined ? base : over
  const keys = new Set([...Object.keys(base), ...Object.keys(over)])
  return Object.fromEntries([...keys].map((key) => [key, merge(base[key], over[key])]))
}

const laneKeys = Object.keys(Lane.fields)
const laneSchema = writtenSchema(Lane)

const delivery = (value: unknown, path: Path): Decoded<LaneConfig["delivery"]> => {
  const { findings, ...decoded } = decode(Delivery, value ?? {}, path)
  if (findings.length > 0) return { findings: findings.map((finding) => ofLane(finding, path)) }
  const retry = decoded.value?.retry
  if (retry === undefined || Duration.isLessThanOrEqualTo(retry.initial, retry.max)) return { ...decoded, findings }
  const hint = 'shorten it, or raise "max", which is 10 minutes unless it is given'
  return { findings: [error([...path, "retry"], '"initial" is longer than "max"', hint)] }
}

/** Adds a hint if a key that belongs beside `delivery` was written inside it. */
const ofLane = (finding: Finding, path: Path): Finding => {
  const key = finding.path[path.length]
  return finding.at === "key" && laneKeys.includes(String(key))
    ? { ...finding, hint: `it is a key of a sink, beside its "delivery"` }
    : finding
}

/** Warns if an attempt has less time than the protocol of its sink needs. */
const shortTimeout = (
  { value: needed, because }: NonNullable<ConfiguredType<unknown>["timeout"]>,
  given: Duration.Duration,
  sink: Fields,
  path: Path,
): ReadonlyArray<Finding> => {
  const own = fields(sink.delivery).timeout !== undefined
  return Duration.isGreaterThanOrEqualTo(given, Duration.fromInputUnsafe(needed))
    ? []
    : [
        warning(
          [...(own ? path : []), "delivery", "timeout"],
          `${Duration.format(given)} is less than ${because}, so an event may be sent again and again although it arrived`,
          `give the sink ${needed}, its default`,
        ),
      ]
}

/** Decodes a sink in two steps: first its type, then the type's own keys and the keys that every sink has. */
const sink = (name: string, value: unknown, inherited: unknown, types: Types): Decoded<LaneConfig> => {
  const path: Path = ["sinks", name]
  const names = Object.keys(types.sinkTypes)
  const refused = (at: Path, message: string, hint?: string) => ({ findings: [error(at, message, hint)] })
  if (!isFields(value)) {
    return refused(path, "a sink is an object: { … }", `it has at least a "type": ${names.join(", ")}`)
  }
  const at = [...path, "type"]
  if (value.type === undefined) return refused(at, 'the key "type" is missing', `one of: ${names.join(", ")}`)
  const type = String(value.type)
  const sinkType = typeOf(value, types)
  if (sinkType === undefined) {
    return refused(at, "there is no such type of sink", didYouMean(type, names, "the types are"))
  }
  const own = keysOf(sinkType.config)
  const known = [...new Set(["type", ...own, ...laneKeys])]
  const ofType = writtenSchema(sinkType.config)
  const strange = Object.keys(value)
    .filter((key) => !known.includes(key))
    .map((key) => ({ key, meant: meantBy(ofType, key) ?? meantBy(laneSchema, key) }))
  const unknown = strange.map(({ key, meant }) =>
    errorAtKey(
      [...path, key],
      `unknown key "${key}"`,
      meant?.hint ?? deliveryKey(key) ?? didYouMean(key, known, `the keys of the type ${type} are`, own),
    ),
  )
  const config = decode(sinkType.config, pick(value, own), path)
  const lane = decode(Lane, pick(value, laneKeys), path)
  const { timeout } = sinkType
  const merged = delivery(merge(merge({ ...(timeout && { timeout: timeout.value }) }, inherited), value.delivery), [
    ...path,
    "delivery",
  ])
  // A misnamed key isn't also reported as missing.
  const isMeant = (key: string) =>
    value[key] === undefined && strange.some((one) => (one.meant?.key ?? nearest(one.key, own)) === key)
  const missing = config.findings.filter(
    (finding) => !(finding.path.length === path.length + 1 && isMeant(String(finding.path.at(-1)))),
  )
  const findings = [...unknown, ...missing, ...lane.findings]
  if (findings.length > 0) return { findings }
  if (lane.value === undefined || merged.value === undefined)
    return { findings: value.delivery === undefined ? [] : merged.findings }
  const effective = { ...lane.value, delivery: merged.value }
  const common = Struct.omit(effective, ["digest", "alert"])
  const grouped = groupingOf(type, types.sinkTypes, config.value, {
    lane: effective,
    given: new Set(Object.keys(value)),
    path,
  })
  if (grouped.findings.length > 0) return { findings: grouped.findings }
  const doubts = (sinkType.doubts?.(config.value) ?? []).map((doubt) =>
    warning([...path, ...doubt.path], doubt.message, doubt.hint),
  )
  return {
    findings: [...doubts, ...(timeout === undefined ? [] : shortTimeout(timeout, merged.value.timeout, value, path))],
    value: {
      ...common,
      ...grouped.grouping,
      name,
      type,
      concurrency: lane.value.concurrency ?? sinkType.concurrency,
      config: grouped.config,
    },
  }
}

const journalOf = (value: unknown, { journalTypes }: Pick<Types, "journalTypes">): Decoded<JournalConfig> => {
  const schema = journalSchema(String(fields(value).type), journalTypes) as Schema.ConstraintDecoder<JournalConfig>
  return decode(schema, value ?? {}, ["journal"])
}

/** If only a duration is given, all hours count. */
const silentAfterOf = (silentAfter: NonNullable<ConfigFile["webhooks"][string]["silentAfter"]>): SilentAfter => {
  if (Duration.isDuration(silentAfter)) return { duration: silentAfter }
  const { duration, ...within } = silentAfter
  return { duration, within }
}

/** Returns the sender of a webhook with `verify`. A place in `event` replaces the scheme's own. */
const senderOf = (
  verify: NonNullable<ConfigFile["webhooks"][string]["verify"]>,
  { types = [], ...given }: Partial<NonNullable<ConfigFile["webhooks"][string]["event"]>> = {},
): Sender => {
  const places = { type: [], ...(typeof verify === "string" && senders[verify].event), ...given }
  if (typeof verify === "string") return { scheme: senders[verify].verify, places, types }
  return { scheme: { ...verify, tolerance: Duration.toMillis(verify.tolerance) }, places, types }
}

const assemble = (
  { $schema: _, delivery: __, sinks: ___, webhooks, routes, clients, ...settings }: ConfigFile,
  journal: JournalConfig,
  sinks: ReadonlyArray<LaneConfig>,
  certificates: ReadonlyArray<Certificate>,
): RelayConfig => ({
  ...settings,
  ...(clients !== undefined && { clients: { ...clients, baseUrl: clients.baseUrl.replace(/\/+$/, "") } }),
  certificates,
  journal,
  webhooks: Object.entries(webhooks).map(
    ([name, { id, headers, silentAfter, verify, event, ...webhook }]): Webhook => ({
      ...webhook,
      ...(verify !== undefined && { sender: senderOf(verify, event) }),
      ...(silentAfter !== undefined && { silentAfter: silentAfterOf(silentAfter) }),
      name,
      ids: id ?? [],
      headers: { signature: headers.signature.toLowerCase(), webhookId: headers.webhookId.toLowerCase() },
    }),
  ),
  sinks,
  routes: routes.map(({ where: { jmespath, ...where }, ...route }) => ({
    ...route,
    // The text of an expression was decoded like any other value, to a list with one item.
    ...(Array.isArray(jmespath) && { jmespath: String(jmespath[0]) }),
    where,
  })),
})

/** Reports whether an earlier finding is at this path or above it. */
const isReported = (findings: ReadonlyArray<Finding>, { path }: Pick<Finding, "path">): boolean =>
  findings.some(
    (earlier) => earlier.path.length <= path.length && earlier.path.every((key, index) => key === path[index]),
  )

/** Adds the reference to a finding about a resolved value, because the mistake is then not in the file. */
const withOrigin = (finding: Finding, written: unknown): Finding => {
  const origin = finding.at === "key" ? "" : referencesIn(valueAt(written, finding.path))
  if (origin === "") return finding
  const given = `it is the text that ${origin} gives`
  return { ...finding, hint: finding.hint === undefined ? given : `${finding.hint}; ${given}` }
}

/** Sorts diagnostics by their position in the file. */
const ordered = (diagnostics: ReadonlyArray<Diagnostic>): ReadonlyArray<Diagnostic> =>
  diagnostics.toSorted((a, b) => a.line - b.line || a.column - b.column)

const located = (source: Source, findings: ReadonlyArray<Finding>): ReadonlyArray<Diagnostic> =>
  ordered([...source.problems, ...findings.map(source.locate)])

/** Decodes the file by its schema. Each route is decoded separately, because there may be thousands. */
const decodeFile = Effect.fnUntraced(function* (root: Readonly<Record<string, unknown>>) {
  const { routes } = root
  if (!Array.isArray(routes)) return decode(ConfigFile, root, [])
  const whole = decode(ConfigFile, { ...root, routes: [] }, [])
  const each = yield* inSlices(routes, 50, (route, index) => decode(Route, route, ["routes", index]))
  const findings = [...whole.findings, ...each.flatMap((one) => one.findings)]
  if (whole.value === undefined || findings.length > 0) return { findings }
  return { value: { ...whole.value, routes: each.flatMap(({ value }) => value ?? []) }, findings }
})

const build = Effect.fnUntraced(function* (file: string, text: string, given: LoadOptions) {
  // A check continues without credentials that this process may not read.
  const isDenied = given.mayLack === "credentials" && !(yield* mayReadInstalled(file, given))
  const options = given.readsInstalled === true && !isDenied ? withInstalled(file, given) : given
  const source = parse(file, text, mayBeShown(options))
  const fail = (findings: ReadonlyArray<Finding>) => new ConfigError({ file, diagnostics: located(source, findings) })
  if (text.includes('"jmespath"')) yield* Jmespath.load
  yield* eventLoop.turn
  if (source.value === undefined) return yield* fail([])
  if (!isFields(source.value)) {
    return yield* fail([error([], "a config is an object: { … }", "`relay init` writes a config to start from")])
  }
  const mayLack = (text: string): boolean =>
    options.mayLack === true || (options.mayLack === "credentials" && isCredential(text, options.env))
  const written = withDefaults(source.value, options.env)
  const {
    value: resolved,
    findings: unresolved,
    absent,
    hide,
  } = yield* resolve(written, [], options, standIns(source.value, options), mayLack)
  const unknown = [...unresolved, ...absent]
  const now = yield* Clock.currentTimeMillis
  const isUnknown = (path: Path) => isReported(unknown, { path })
  const files = yield* CertificateFiles.read(fields(resolved), { ...options, now, isUnknown })
  const { root } = files
  const whole = yield* decodeFile(root)
  const journal = journalOf(root.journal, options)
  const common = delivery(root.delivery, ["delivery"])
  const inherited = common.findings.length === 0 ? root.delivery : undefined
  const sinks = yield* inSlices(Object.entries(fields(root.sinks)), 20, ([name, value]) =>
    sink(name, value, inherited, options),
  )
  const shape = [
    ...files.errors,
    ...files.warnings,
    ...whole.findings,
    ...journal.findings,
    ...(whole.findings.length === 0 ? common.findings : []),
    ...sinks.flatMap((_) => _.findings),
  ]
  const checked = (yield* inSlices(Rules.steps(source.value, root, options, now), 1, (step) => step())).flat()
  const wrongAt = new Set(checked.filter(({ severity }) => severity === "error").map(({ path }) => formatPath(path)))
  // A wrong value has only its error.
  const rules = checked.filter(({ severity, path }) => severity === "error" || !wrongAt.has(formatPath(path)))
  const shapes = shape.filter(({ severity, path }) => severity !== "error" || !wrongAt.has(formatPath(path)))
  const found = [...shapes, ...rules].filter((finding) => !isReported(unknown, finding)).map(hide)
  const findings = [...unresolved.map(hide), ...found.map((finding) => withOrigin(finding, written))]
  const lanes = sinks.flatMap(({ value }) => value ?? [])
  const isWrong = source.problems.length > 0 || findings.some((_) => _.severity === "error")
  const faults = files.faults.map(({ finding, ...rest }) => ({ ...rest, finding: hide(finding) }))
  if (isWrong) return yield* fail([...findings, ...faults.map(({ finding }) => finding)])
  if (whole.value === undefined || journal.value === undefined) return yield* fail(absent)
  const loaded: Loaded = {
    file,
    config: assemble(whole.value, journal.value, lanes, files.certificates),
    warnings: located(source, [...findings, ...Rules.idle(root)]),
    lineOf: (path) => (valueAt(source.value, path) === undefined ? undefined : source.locate(error(path, "")).line),
    certificateFaults: faults.map(({ finding, ...rest }) => ({ ...source.locate(finding), ...rest })),
    absent: [
      ...absent.map(({ path, message, shown }) => ({ path, key: formatPath(path), message, shown })),
      ...files.absent.map(({ path, message }) => ({ path, key: formatPath(path), message })),
    ],
  }
  return loaded
})

/** Returns the diagnostics of certificate faults. */
export const diagnosticsOf = (faults: ReadonlyArray<CertificateFault>): ReadonlyArray<Diagnostic> =>
  faults.map(({ fingerprint: _, ...diagnostic }) => diagnostic)

/** Fails if a certificate has a fault. */
export const requireCertificates = (loaded: Loaded): Effect.Effect<Loaded, ConfigError> => {
  const { file, certificateFaults, warnings } = loaded
  const diagnostics = ordered([...diagnosticsOf(certificateFaults), ...warnings])
  return certificateFaults.length === 0 ? Effect.succeed(loaded) : Effect.fail(new ConfigError({ file, diagnostics }))
}

/** Returns the warnings about a config that is used despite them. */
export const warningsOf = ({ warnings, certificateFaults }: Loaded): ReadonlyArray<Diagnostic> => [
  ...warnings,
  ...diagnosticsOf(certificateFaults).map((fault) => ({ ...fault, severity: "warning" as const })),
]

/** Loads a config file. */
export const load = Effect.fn("Config.load")(function* (file: string, options: LoadOptions) {
  const text = yield* read(file, options)
  return text === undefined ? yield* missing(file) : yield* build(file, text, options)
})

/** Loads the working directory's `relay.config.json`, the installed config, or the embedded defaults. */
export const loadOrEmbedded = Effect.fn("Config.loadOrEmbedded")(function* (options: LoadOptions) {
  const { file, text } = yield* readDefault(options)
  return yield* build(file, text, options)
})

/** Opens the file to read parts of it. Without a file, opens the default config as {@link loadOrEmbedded} does. */
const open = Effect.fnUntraced(function* (file: string | undefined, options: Environment & Partial<Types>) {
  const named = file === undefined ? yield* readDefault(options) : { file, text: yield* read(file, options) }
  const { file: name, text = yield* missing(name) } = named
  const source = parse(name, text, mayBeShown({ sinkTypes: {}, journalTypes: {}, ...options }))
  if (isFields(source.value)) return { file: name, source, root: source.value }
  return yield* new ConfigError({ file: name, diagnostics: located(source, []) })
})

type Opened = Effect.Success<ReturnType<typeof open>>

/** Loads one part of the file. The other parts are not resolved or checked. */
const part = Effect.fnUntraced(function* <A>(
  { file, source, root }: Opened,
  key: string,
  decodePart: (value: unknown) => Decoded<A>,
  options: Environment & Host,
  written: unknown = root[key] ?? {},
) {
  const { value, findings, hide } = yield* resolve(written, [key], withInstalled(file, options))
  const decoded = decodePart(value ?? {})
  if (decoded.value !== undefined && findings.length === 0) return decoded.value
  const wrong = decoded.findings.filter((finding) => !isReported(findings, finding))
  return yield* new ConfigError({ file, diagnostics: located(source, [...findings, ...wrong].map(hide)) })
})

/**
 * Loads only the address of the admin API and one of its tokens, because `relay status` may be run by a user who can't
 * read the signing secrets or the tokens of others. The token is the one called `as`, or the first that can be read. If
 * none can be read and all are credentials of the service, there is no token and `lacksToken` is set.
 */
export const loadAdmin = Effect.fn("Config.loadAdmin")(function* (
  given: string | undefined,
  { as, ...options }: Environment & Host & { readonly as?: string | undefined },
) {
  const opened = yield* open(given, options)
  const { file, root } = opened
  const all = writtenTokens(root.admin)
  const names = all.map(({ name }) => String(name))
  const wanted = all.filter(({ name }) => as === undefined || name === as)
  const adminOf = (written?: unknown) =>
    part(opened, "admin", (value) => decode(Admin, value, ["admin"]), options, written)
  if (all.length === 0) return { file, names, lacksToken: false, admin: yield* adminOf() }
  const refused: Array<ConfigError> = []
  for (const { name, value, alone } of wanted) {
    const read = yield* Effect.result(adminOf(alone))
    if (Result.isSuccess(read)) {
      const { tokens, ...rest } = read.success
      const mine = tokens?.filter((token) => token.name === name)
      return { file, names, lacksToken: false, admin: { ...rest, ...(mine !== undefined && { tokens: mine }) } }
    }
    // A credential that only the service may read isn't an error: the relay reports whether it needs a token.
    if (typeof value !== "string" || !isCredential(value, options.env)) refused.push(read.failure)
  }
  const [first] = refused
  if (first !== undefined) return yield* first
  const { token: _, tokens: __, ...rest } = fields(root.admin)
  const admin: AdminConfig = yield* adminOf(rest)
  return { file, names, lacksToken: wanted.length > 0, admin }
})

/** Loads only the journal's section, because work on its file must not fail because of a secret or a sink. */
export const loadJournal = Effect.fn("Config.loadJournal")(function* (
  file: string | undefined,
  options: Environment & Host & Pick<Types, "journalTypes">,
) {
  return yield* part(yield* open(file, options), "journal", (value) => journalOf(value, options), options)
})
