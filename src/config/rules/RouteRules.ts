/** Rules for routes and for the tests of routes. */
import { Option, Predicate, Schema } from "effect"
import { eventTypes, failureEndedBy, isRelayEvent, relayEventTypes } from "../../event/EventType.ts"
import { nearest } from "../../event/Nearest.ts"
import * as Numbers from "../../event/Numbers.ts"
import { parsePointer } from "../../event/Pointer.ts"
import * as Condition from "../../routing/Condition.ts"
import * as Pattern from "../../routing/Pattern.ts"
import { didYouMean } from "../diagnostics/Issues.ts"
import { error, errorAtKey, type Finding, formatPath, warning, warningAtKey } from "../diagnostics/Source.ts"
import { type Fields, fields, items, type Path } from "../Fields.ts"
import { FieldCondition } from "../schema/ConfigFile.ts"
import { conditionRules as expressionRules, repeated, type Text, texts } from "./ShapeRules.ts"

// Rules for a route's `where`: empty conditions, conditions that never or always hold, and fields that
// an envelope does not have.

const pointerHint = "`~0` stands for `~` and `~1` for `/`; nothing else follows a `~`"

/** The keys of a condition. `not` contains them too. */
const keys = ["oneOf", "prefix", "exists"] as const

const isText = (value: unknown): value is string => typeof value === "string"

const decodeCondition = Schema.decodeUnknownOption(FieldCondition, { onExcessProperty: "error" })

/** Finds empty objects. The schema reports empty lists. */
const empties = (
  value: unknown,
  path: Path,
  known: ReadonlyArray<string> = [...keys, "not"],
): ReadonlyArray<Finding> => {
  if (!Predicate.isObject(value)) return []
  return Object.keys(value).length === 0
    ? [error(path, "a condition has at least one key", `the keys are ${known.join(", ")}`)]
    : empties(value.not, [...path, "not"], keys)
}

/** The kind of a field. The envelope's own fields are text or an object. A field of the sender's object may be anything. */
type Kind = "text" | "object" | "nothing" | "anything" | "undocumented"

const shapes: Readonly<Record<string, "text" | "object">> = {
  "": "object",
  "/id": "text",
  "/account_id": "text",
  "/version": "text",
  "/created_at": "text",
  "/data": "object",
  "/data/type": "text",
  "/data/object": "object",
}
const own = Object.keys(shapes).filter((pointer) => pointer !== "")

const kindOf = (pointer: string): Kind => {
  const shape = shapes[pointer]
  if (shape !== undefined) return shape
  if (own.some((field) => shapes[field] === "text" && pointer.startsWith(`${field}/`))) return "nothing"
  return pointer.startsWith("/data/object/") ? "anything" : "undocumented"
}

/** Reports whether a field of this kind may have the value. */
const mayBe: Readonly<Record<Kind, (value: unknown) => boolean>> = {
  text: isText,
  object: (value) => Predicate.isObject(value) && !Numbers.isNumber(value),
  nothing: (value) => value === undefined,
  anything: () => true,
  undocumented: () => true,
}

/** Explains why a condition never holds, and what to do. */
const reasons: Readonly<Record<Kind, (pointer: string) => readonly [why: string, hint: string | undefined]>> = {
  text: (pointer) => [`${pointer} is text in every event`, "the fields of the sender's object are below /data/object"],
  object: (pointer) => [`${pointer || "the whole envelope"} is an object`, "name one of its fields"],
  nothing: (pointer) => [`no event has ${pointer}`, "the field above it is text"],
  anything: () => ["its parts contradict each other", undefined],
  undocumented: () => ["its parts contradict each other", undefined],
}

/** Finds values other than text for fields that can only be text. */
const notText = (value: unknown, path: Path): ReadonlyArray<Finding> => {
  if (Array.isArray(value)) return value.flatMap((item, index) => notText(item, [...path, index]))
  if (Predicate.isObject(value) && !Numbers.isNumber(value)) {
    return Object.entries(value).flatMap(([key, item]) => (key === "exists" ? [] : notText(item, [...path, key])))
  }
  return isText(value)
    ? []
    : [error(path, "this field is always text, and never this", `write "${JSON.stringify(value)}"`)]
}

/** Reports whether a condition always or never holds, by trying many kinds of values that the field may have. */
const decided = (condition: Condition.Condition, kind: Kind): "always" | "never" | undefined => {
  const holds = Condition.make(condition)
  const results = new Set(Condition.witnesses(condition).filter(mayBe[kind]).map(holds))
  if (results.size > 1) return undefined
  return results.has(true) ? "always" : "never"
}

const conditionRules = (pointer: string, value: unknown, path: Path): ReadonlyArray<Finding> => {
  const kind = kindOf(pointer)
  const empty = empties(value, path)
  // If the schema refuses the value, it already has a finding.
  const condition = Option.getOrUndefined(decodeCondition(value))
  if (empty.length > 0 || condition === undefined) return empty
  const wrong = kind === "text" ? notText(value, path) : []
  if (wrong.length > 0) return wrong
  const always = decided(condition, kind)
  if (always === "never") {
    const [why, hint] = reasons[kind](pointer)
    return [error(path, `this never holds, so the route matches nothing: ${why}`, hint)]
  }
  if (always === "always") return [warning(path, "this always holds", "remove it")]
  if (kind !== "undocumented") return []
  const hint = didYouMean(pointer, own, "its fields are")
  return [warningAtKey(path, `the envelope has no documented field ${pointer}`, hint)]
}

/** Returns the hint for a text that is not a JSON Pointer. */
const pointerHintFor = (text: string): string =>
  text.startsWith("/") ? pointerHint : `did you mean "/${text.replace(/^\$?\./, "").replaceAll(".", "/")}"?`

/** Checks that the pointers of `journal.searchIds` lead to fields that may contain an id. */
export const searchIdRules = (root: Fields): ReadonlyArray<Finding> =>
  texts(fields(root.journal).searchIds, ["journal", "searchIds"]).flatMap(({ text, path }) => {
    if (text === "") return []
    if (parsePointer(text) === undefined) return [error(path, "this is not a JSON Pointer", pointerHintFor(text))]
    const kind = kindOf(text)
    if (kind === "object" || kind === "nothing") return [error(path, ...reasons[kind](text))]
    if (kind !== "undocumented") return []
    const hint = didYouMean(text, own, "its fields are")
    return [warning(path, `the envelope has no documented field ${text}`, hint)]
  })

/** Returns the findings on the `where` of the route at `path`. */
const whereRules = (route: Fields, path: Path): ReadonlyArray<Finding> => {
  const where = Object.entries(fields(route.where))
  const patterns = texts(route.match, [])
  const isOwn = patterns.length > 0 && patterns.every(({ text }) => text.startsWith("relay."))
  const found = where.flatMap(([pointer, condition]) => {
    const at = [...path, "where", pointer]
    if (pointer === "jmespath") return expressionRules(condition, at)
    if (parsePointer(pointer) !== undefined) return conditionRules(pointer, condition, at)
    return [errorAtKey(at, "this is not a JSON Pointer", pointerHintFor(pointer))]
  })
  if (!isOwn || where.length === 0) return found
  const message = "the relay's own events are routed by their type alone, so this route matches nothing"
  return [...found, errorAtKey([...path, "where"], message, 'remove "where"')]
}

/** The types that events of a config may have. */
interface Catalogue {
  /** The types of the sender, of other senders that the config lists, and of the relay. */
  readonly known: ReadonlyArray<string>
  /** The webhooks of other senders whose types are not listed. */
  readonly unlisted: ReadonlySet<string>
}

const catalogueOf = (root: Fields): Catalogue => {
  const others = Object.entries(fields(root.webhooks)).flatMap(([name, value]) => {
    const { verify, event } = fields(value)
    return verify === undefined ? [] : [{ name, types: texts(fields(event).types, []).map(({ text }) => text) }]
  })
  return {
    known: [...new Set([...eventTypes, ...others.flatMap(({ types }) => types), ...relayEventTypes])],
    unlisted: new Set(others.flatMap(({ name, types }) => (types.length === 0 ? [name] : []))),
  }
}

/** Compiles patterns of event types. The result reports whether a pattern matches a type. */
export const matching = (patterns: ReadonlyArray<string>): ((type: string) => boolean) => {
  const compiled = patterns.map(Pattern.make)
  return (type) => compiled.some(({ matches }) => matches(type))
}

/** A pattern, parsed once. A config may have many routes with the same few patterns. */
interface Known {
  readonly problem: string | undefined
  /** The known types that it matches. */
  readonly types: ReadonlySet<string>
}

interface Look extends Catalogue {
  readonly at: (text: string) => Known
}

/** Makes a lookup that parses each pattern once. */
export const looking = (root: Fields): Look => {
  const all = new Map<string, Known>()
  const catalogue = catalogueOf(root)
  const at = (text: string): Known => {
    const before = all.get(text)
    if (before !== undefined) return before
    const problem = Pattern.problem(text)
    const types = problem === undefined ? catalogue.known.filter(Pattern.make(text).matches) : []
    const found = { problem, types: new Set(types) }
    all.set(text, found)
    return found
  }
  return { ...catalogue, at }
}

/** Returns a webhook whose events a route with this `webhook` may match, and whose types the config does not list. */
const unlistedIn = ({ unlisted }: Catalogue, webhook: unknown): string | undefined =>
  [...unlisted].find((name) => webhook === undefined || webhook === name)

/** Finds patterns that are invalid or match none of the known types. */
export const patternRules = ({ path, text }: Text, look: Look, webhook?: unknown): ReadonlyArray<Finding> => {
  const { problem, types: matched } = look.at(text)
  if (problem !== undefined) {
    const choices = Pattern.choicesOf(text).map((one) => one.trim())
    const isList = choices.length > 1 && choices.every((one) => Pattern.problem(one) === undefined)
    return [error(path, problem, isList ? asList(choices) : undefined)]
  }
  if (matched.size > 0) return []
  const ours = text.startsWith("relay.")
  const types = ours ? relayEventTypes : look.known.filter((type) => !isRelayEvent(type))
  const all = ours ? "the relay's own events" : `the ${types.length} event types`
  const unlisted = unlistedIn(look, webhook)
  if (unlisted !== undefined && !ours) {
    const at = formatPath(["webhooks", unlisted, "event", "types"])
    const message = `this matches none of ${all}, and whether ${unlisted} sends such events can't be checked`
    return [warning(path, message, `list the types that it sends in ${at}`)]
  }
  const near = below(text, types) ?? nearestPattern(text, types)
  const hint = text === "*" ? "`**` matches them all" : near && `did you mean "${near}"?`
  return [warning(path, `this matches none of ${all}`, hint)]
}

const asList = (items: ReadonlyArray<string>): string => `as a list: ${JSON.stringify(items).replaceAll(",", ", ")}`

/** Returns the pattern for all types below a segment if the text is only the segment, such as `client` or `client*`. */
const below = (text: string, types: ReadonlyArray<string>): string | undefined => {
  const start = `${text.replace(/\.?\*$/, "")}.`
  const found = types.filter((type) => type.startsWith(start))
  if (found.length === 0) return undefined
  return found.some((type) => type.slice(start.length).includes(".")) ? `${start}**` : `${start}*`
}

/** Corrects a segment with one `*` by the same end of a type's segment, such as `*_faild` to `*_failed`. */
const correctedSegment = (segment: string, part: string): string => {
  const [before = "", after = "", more] = segment.split("*")
  if (more !== undefined || segment === "*" || !segment.includes("*")) return part
  const words = part.split("_")
  const count = (text: string) => text.split("_").filter((word) => word !== "").length
  const start = before === "" ? "" : `${words.slice(0, count(before)).join("_")}${before.endsWith("_") ? "_" : ""}`
  const end = after === "" ? "" : `${after.startsWith("_") ? "_" : ""}${words.slice(-count(after)).join("_")}`
  const corrected = `${start}*${end}`
  return Pattern.make(corrected).matches(part) ? corrected : part
}

/** Returns the nearest pattern that matches a type. Each segment that doesn't match is replaced by the type's, and `**` replaces segments that are missing before the last. */
const nearestPattern = (given: string, types: ReadonlyArray<string>): string | undefined => {
  const segments = given.split(".")
  const start = segments.slice(0, -1)
  /** The corrected pattern by each similar text. */
  const meant = new Map<string, string>()
  for (const type of types) {
    const parts = type.split(".")
    const isMissing = parts.length > segments.length && !segments.includes("**")
    if (parts.length !== segments.length && !isMissing) continue
    const corrected = [...parts.slice(0, start.length), parts.at(-1) ?? ""].map((part, index) => {
      const segment = segments[index] ?? part
      return segment === "**" || Pattern.make(segment).matches(part) ? segment : correctedSegment(segment, part)
    })
    const text = corrected.join(".")
    if (!isMissing) meant.set(text, text)
    else if (!meant.has(text)) meant.set(text, corrected.toSpliced(start.length, 0, "**").join("."))
  }
  for (const type of types) meant.set(type, type)
  return meant.get(nearest(given, [...meant.keys()]) ?? "")
}

/** Finds exceptions that exclude every type or no type. */
const exceptionRules = (
  match: ReadonlyArray<Text>,
  except: ReadonlyArray<Text>,
  at: Path,
  look: Look,
): ReadonlyArray<Finding> => {
  if (except.length === 0 || [...match, ...except].some(({ text }) => look.at(text).problem !== undefined)) return []
  const taken = look.known.filter((type) => match.some(({ text }) => look.at(text).types.has(type)))
  if (taken.length === 0) return []
  // A recovery follows its failure, unless it is excepted.
  const followed = look.known.filter((type) => taken.some((failure) => failure === failureEndedBy(type)))
  const patterns = except.map((one) => ({ ...one, types: look.at(one.text).types }))
  const idle = patterns.filter(({ types }) => ![...taken, ...followed].some((type) => types.has(type)))
  if (taken.every((type) => patterns.some(({ types }) => types.has(type)))) {
    const message = 'this excepts everything that "match" matches, so the route does nothing'
    return [warning([...at, "except"], message, "narrow it, or remove the route")]
  }
  return idle
    .filter(({ types }) => types.size > 0)
    .map(({ path }) => warning(path, 'this excepts nothing: "match" matches none of it', "remove it, or correct it"))
}

/** The number of routes that one step checks. */
const stepSize = 100

/** Returns the checks of routes as steps, because there may be thousands of routes. */
export const routeRules = (root: Fields): ReadonlyArray<() => ReadonlyArray<Finding>> => {
  const sinks = new Set(Object.keys(fields(root.sinks)))
  const webhooks = Object.keys(fields(root.webhooks))
  const look = looking(root)
  const routes = items(root.routes).map(fields)
  const names = (): ReadonlyArray<Finding> => {
    const named = routes.flatMap(({ name }, index) => texts(name, ["routes", index, "name"]))
    return repeated(named, ({ text }) => text).map(([again]) =>
      error(again.path, "another route has the same name", "logs and `relay explain` tell routes apart by their names"),
    )
  }
  const step = (from: number) => (): ReadonlyArray<Finding> =>
    routes.slice(from, from + stepSize).flatMap((route, index) => {
      const at: Path = ["routes", from + index]
      const patterns = [...texts(route.match, [...at, "match"]), ...texts(route.except, [...at, "except"])]
      const empty = ["match", "to"].filter((key) => Array.isArray(route[key]) && items(route[key]).length === 0)
      return [
        ...empty.map((key) =>
          error([...at, key], "this list is empty, so the route does nothing", "fill it, or remove the route"),
        ),
        ...patterns.flatMap((one) => patternRules(one, look, route.webhook)),
        ...(unlistedIn(look, route.webhook) === undefined
          ? exceptionRules(texts(route.match, []), texts(route.except, [...at, "except"]), at, look)
          : []),
        ...(Predicate.isObject(root.sinks) ? sinkNames(texts(route.to, [...at, "to"]), sinks) : []),
        ...texts(route.webhook, [...at, "webhook"]).flatMap((name) =>
          Predicate.isObject(root.webhooks) ? webhookName(name, webhooks) : [],
        ),
        ...whereRules(route, at),
      ]
    })
  const steps = Array.from({ length: Math.ceil(routes.length / stepSize) }, (_, index) => step(index * stepSize))
  return [names, ...steps]
}

const sinkNames = (names: ReadonlyArray<Text>, sinks: ReadonlySet<string>): ReadonlyArray<Finding> =>
  names.flatMap(({ path, text }) => {
    if (sinks.has(text)) return []
    const several = text.split(",").map((name) => name.trim())
    const hint = several.length > 1 ? asList(several) : didYouMean(text, [...sinks], "the sinks are")
    return [error(path, `there is no sink "${text}"`, hint)]
  })

const webhookName = ({ path, text }: Text, webhooks: ReadonlyArray<string>): ReadonlyArray<Finding> =>
  webhooks.includes(text)
    ? []
    : [error(path, `there is no webhook "${text}"`, didYouMean(text, webhooks, "the webhooks are"))]

export const testRules = (root: Fields): ReadonlyArray<Finding> => {
  const { known, unlisted } = catalogueOf(root)
  const webhooks = Object.keys(fields(root.webhooks))
  return items(root.tests).flatMap((value, index) => {
    const test = fields(value)
    const at: Path = ["tests", index]
    const to = texts(test.to, [...at, "to"])
    const isUnlisted = isText(test.webhook) && unlisted.has(test.webhook)
    const events = texts(test.event, [...at, "event"]).filter(({ text }) => !isUnlisted && !known.includes(text))
    const unsent = Object.keys(fields(test.payloads)).filter((sink) => !to.some(({ text }) => text === sink))
    const found = [
      ...(Predicate.isObject(root.sinks) ? sinkNames(to, new Set(Object.keys(root.sinks))) : []),
      ...unsent.map((sink) =>
        errorAtKey([...at, "payloads", sink], `"to" does not name the sink "${sink}", so it is sent nothing`),
      ),
      ...texts(test.webhook, [...at, "webhook"]).flatMap((name) => webhookName(name, webhooks)),
      ...events.map(({ path, text }) =>
        warning(path, "this is none of the event types", didYouMean(text, known, "for example")),
      ),
    ]
    if (test.object === undefined || test.sample === undefined) return found
    const message = 'a test has an "object" or a "sample", not both'
    return [...found, errorAtKey([...at, "object"], message, "the sample has its own object")]
  })
}

/**
 * Warns about values that are allowed but probably not intended. The config must have no errors, which might be the
 * cause.
 */
export const idleRules = (root: Fields): ReadonlyArray<Finding> => {
  const found: Array<Finding> = []
  const webhooks = Object.keys(fields(root.webhooks))
  const routes = items(root.routes).map(fields)
  if (webhooks.length === 0) {
    const hint = "add one with its path and its signing secret"
    found.push(warningAtKey(["webhooks"], "there is no webhook, so nothing can be received", hint))
  }
  if (routes.length === 0) {
    const hint = 'such as { "name": "everything", "match": "**", "to": … }'
    found.push(warningAtKey(["routes"], "there is no route, so events are stored and delivered nowhere", hint))
    return found
  }
  for (const name of webhooks) {
    if (routes.some(({ webhook }) => webhook === undefined || webhook === name)) continue
    const hint = `add a route with "webhook": "${name}", or one for all`
    found.push(warningAtKey(["webhooks", name], "no route matches events of this webhook", hint))
  }
  const reached = new Set(routes.flatMap(({ to }) => texts(to, []).map(({ text }) => text)))
  for (const name of Object.keys(fields(root.sinks))) {
    if (reached.has(name)) continue
    found.push(warningAtKey(["sinks", name], "no route leads to this sink", `add "${name}" to a route's "to"`))
  }
  return found
}
