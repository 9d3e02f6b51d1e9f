/**
 * Rules for a route's `where`: conditions that say nothing, that can never hold
 * or that always do, and fields that an envelope does not have.
 */
import { Predicate } from "effect"
import * as Numbers from "../../event/Numbers.ts"
import * as Pointer from "../../event/Pointer.ts"
import * as Condition from "../../routing/Condition.ts"
import { didYouMean } from "../diagnostics/Issues.ts"
import { error, errorAtKey, type Finding, type Path, warning, warningAtKey } from "../diagnostics/Source.ts"
import { type Fields, fields } from "../Fields.ts"
import { texts } from "./Shape.ts"
import { conditionRules as expressionRules } from "./ShapeRules.ts"

const pointerHint = "`~0` stands for `~` and `~1` for `/`; nothing else follows a `~`"

/** The keys of a condition; `not` has the others in it. */
const keys = ["oneOf", "prefix", "exists"] as const

const isText = (value: unknown): value is string => typeof value === "string"

const isScalar = (value: unknown): value is Condition.Scalar =>
  value === null || Numbers.isNumber(value) || typeof value === "string" || typeof value === "boolean"

const isScalars = (value: unknown): value is ReadonlyArray<Condition.Scalar> =>
  Array.isArray(value) && value.length > 0 && value.every(isScalar)

/** The value that the schema would make of it; `undefined` where it reports something itself. */
const testsOf = (value: unknown): Condition.Tests | undefined => {
  if (isScalar(value)) return { oneOf: [value] }
  if (isScalars(value)) return { oneOf: value }
  const { oneOf, prefix, exists, ...others } = fields(value)
  const prefixes = typeof prefix === "string" ? [prefix] : prefix
  const isWhole =
    Predicate.isObject(value) &&
    Object.keys(others).length === 0 &&
    (oneOf === undefined || isScalars(oneOf)) &&
    (prefixes === undefined || (isScalars(prefixes) && prefixes.every(isText))) &&
    (exists === undefined || typeof exists === "boolean")
  if (!isWhole) return undefined
  return {
    ...(oneOf !== undefined && { oneOf }),
    ...(prefixes !== undefined && { prefix: prefixes.filter(isText) }),
    ...(exists !== undefined && { exists }),
  }
}

const conditionOf = (value: unknown): Condition.Condition | undefined => {
  if (!Predicate.isObject(value) || !("not" in value)) return testsOf(value)
  const { not, ...rest } = value
  const [tests, negated] = [testsOf(rest), testsOf(not)]
  return tests && negated && { ...tests, not: negated }
}

/** Objects that say nothing. An empty list is the schema's to report. */
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

/** The kind of a field, if known: the envelope's own hold text or an object; the sender's object may hold anything. */
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

/** Whether a field of this kind may have the value. */
const mayBe: Readonly<Record<Kind, (value: unknown) => boolean>> = {
  text: isText,
  object: (value) => Predicate.isObject(value) && !Numbers.isNumber(value),
  nothing: (value) => value === undefined,
  anything: () => true,
  undocumented: () => true,
}

/** Why a condition that never holds does not, and what to do. */
const reasons: Readonly<Record<Kind, (pointer: string) => readonly [why: string, hint: string | undefined]>> = {
  text: (pointer) => [`${pointer} is text in every event`, "the fields of the sender's object are below /data/object"],
  object: (pointer) => [`${pointer || "the whole envelope"} is an object`, "name one of its fields"],
  nothing: (pointer) => [`no event has ${pointer}`, "the field above it is text"],
  anything: () => ["its parts contradict each other", undefined],
  undocumented: () => ["its parts contradict each other", undefined],
}

/** Numbers and the like, where only text can be. */
const notText = (value: unknown, path: Path): ReadonlyArray<Finding> => {
  if (Array.isArray(value)) return value.flatMap((item, index) => notText(item, [...path, index]))
  if (Predicate.isObject(value) && !Numbers.isNumber(value)) {
    return Object.entries(value).flatMap(([key, item]) => (key === "exists" ? [] : notText(item, [...path, key])))
  }
  return isText(value)
    ? []
    : [error(path, "this field is always text, and never this", `write "${JSON.stringify(value)}"`)]
}

/** Whether a condition always or never holds, by all sorts of values that the field may have. */
const decided = (condition: Condition.Condition, kind: Kind): "always" | "never" | undefined => {
  const holds = Condition.make(condition)
  const results = new Set(Condition.witnesses(condition).filter(mayBe[kind]).map(holds))
  if (results.size > 1) return undefined
  return results.has(true) ? "always" : "never"
}

const conditionRules = (pointer: string, value: unknown, path: Path): ReadonlyArray<Finding> => {
  const kind = kindOf(pointer)
  const empty = empties(value, path)
  const condition = conditionOf(value)
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

/** The findings of a route's `where`; `path` is that of the route. */
export const whereRules = (route: Fields, path: Path): ReadonlyArray<Finding> => {
  const where = Object.entries(fields(route.where))
  const patterns = texts(route.match, [])
  const isOwn = patterns.length > 0 && patterns.every(({ text }) => text.startsWith("relay."))
  const found = where.flatMap(([pointer, condition]) => {
    const at = [...path, "where", pointer]
    if (pointer === "jmespath") return expressionRules(condition, at)
    if (Pointer.parse(pointer) !== undefined) return conditionRules(pointer, condition, at)
    const hint = pointer.startsWith("/") ? pointerHint : `did you mean "/${pointer.replaceAll(".", "/")}"?`
    return [errorAtKey(at, "this is no JSON Pointer", hint)]
  })
  if (!isOwn || where.length === 0) return found
  const message = "the relay's own events are routed by their type alone, so this route matches nothing"
  return [...found, errorAtKey([...path, "where"], message, 'remove "where"')]
}
