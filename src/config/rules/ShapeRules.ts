/**
 * Rules for JMESPath expressions. They find mistakes that don't depend on the event,
 * and event types for which an expression has no result.
 *
 * **Gotcha.** The sender publishes no schema of its objects, and the relay's samples
 * are invented. So an expression that fails for a sample is only a warning. If a test
 * in the config has an `object` of the type, it replaces the sample.
 */
import { Result } from "effect"
import type { Entry } from "../../event/Event.ts"
import { eventTypes, isRelayEvent, relayEventTypes } from "../../event/EventType.ts"
import * as Numbers from "../../event/Numbers.ts"
import * as SampleEvent from "../../event/SampleEvent.ts"
import * as Jmespath from "../../formats/jmespath/Jmespath.ts"
import * as Rendering from "../../formats/Rendering.ts"
import * as Template from "../../formats/Template.ts"
import * as Pattern from "../../routing/Pattern.ts"
import { error, errorAtKey, type Finding, warning } from "../diagnostics/Source.ts"
import { type Fields, fields, items, type Path } from "../Fields.ts"
import { type Types, visitSinks } from "../schema/ConfiguredTypes.ts"
import { traitOf } from "../schema/Traits.ts"

// Helpers for rules about texts, duplicates and names in a config's resolved JSON.

export interface Text {
  readonly path: Path
  readonly text: string
}

/** Returns the texts of a key that has one text or a list of texts. */
export const texts = (value: unknown, path: Path): ReadonlyArray<Text> =>
  (Array.isArray(value)
    ? value.map((text, index) => [text, [...path, index]] as const)
    : [[value, path] as const]
  ).flatMap(([text, path]) => (typeof text === "string" ? [{ text, path }] : []))

/** Returns all texts below a value. */
export const deepTexts = (value: unknown, path: Path): ReadonlyArray<Text> => {
  if (typeof value === "string") return [{ path, text: value }]
  if (Array.isArray(value)) return value.flatMap((item, index) => deepTexts(item, [...path, index]))
  if (Numbers.isNumber(value)) return []
  return Object.entries(fields(value)).flatMap(([key, item]) => deepTexts(item, [...path, key]))
}

/** Returns the duplicates among items that must be unique, each with the first one. */
export const repeated = <A extends { readonly path: Path }>(
  all: ReadonlyArray<A>,
  identity: (item: A) => string,
): ReadonlyArray<readonly [again: A, first: A]> => {
  const first = new Map<string, A>()
  return all.flatMap((item) => {
    const earlier = first.get(identity(item))
    if (earlier === undefined) first.set(identity(item), item)
    return earlier === undefined ? [] : [[item, earlier] as const]
  })
}

/** The minimum bytes of a secret. A shorter one can be guessed. */
const shortestSecret = 16

/** Warns about a secret that can be guessed or was cut off. The finding only says that it is short. */
export const weakRules = (value: unknown, path: Path, what: string): ReadonlyArray<Finding> => {
  if (typeof value !== "string" || value === "" || Buffer.byteLength(value) >= shortestSecret) return []
  const hint = "check that it is complete; `openssl rand -hex 32` makes a longer one"
  return [warning(path, `${what} of fewer than ${shortestSecret} bytes can be guessed`, hint)]
}

export const isName = (name: string): boolean => /^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/.test(name)

/** Checks a name. It is used in metrics, in the ids of dead letters (`sink:42`) and on the command line. */
export const nameRules = (name: string, at: Path, what: string): ReadonlyArray<Finding> => {
  if (name.startsWith("_")) {
    return [errorAtKey(at, `a ${what}'s name can't begin with "_"`, "such names are the relay's own, like _quarantine")]
  }
  return isName(name)
    ? []
    : [errorAtKey(at, `this is not a name for a ${what}`, "letters, digits, `_`, `-` and `.`, at most 100")]
}

const found = ({ text, path }: Text, known?: ReadonlySet<string>): ReadonlyArray<Finding> => {
  const problem = Jmespath.problem(text, known)
  if (problem === undefined) return []
  return [{ ...error(path, problem.message, problem.hint), within: { text, offset: problem.offset } }]
}

/** Returns the findings on the expression of a body or a key. */
export const shapeRules = ({ jmespath: text }: Jmespath.Shape, path: Path, ofAlert?: boolean): ReadonlyArray<Finding> =>
  found({ text, path: [...path, "jmespath"] }, Template.variableNames(ofAlert))

/** Returns the findings on the expression of a `where`, which has no variables. */
export const conditionRules = (value: unknown, path: Path): ReadonlyArray<Finding> =>
  typeof value === "string"
    ? found({ text: value, path })
    : [error(path, "an expression is text", 'such as "length(data.object.id) > `3`"')]

const at = Date.UTC(2026, 0, 15, 12)

/** Returns sample events of each type, with the objects of the config's tests or else the relay's own. */
const samplesOf = (root: Fields, types: ReadonlyArray<string>): ReadonlyArray<Entry> =>
  types.flatMap((type) => {
    const given = items(root.tests).flatMap((test) => {
      const { event, object } = fields(test)
      return event === type && object !== undefined ? [fields(object)] : []
    })
    return (given.length === 0 ? [undefined] : given).map((object): Entry => {
      const envelope = SampleEvent.sample(type, at, { isFixed: true, object })
      return {
        sequence: 1,
        sinks: [],
        replayed: false,
        event: {
          id: envelope.id,
          type,
          accountId: envelope.account_id,
          webhook: isRelayEvent(type) ? "relay" : "sample",
          webhookId: "",
          signature: "",
          secret: "",
          receivedAt: at,
          body: new TextEncoder().encode(JSON.stringify(envelope)),
        },
      }
    })
  })

const shown = 5

const unmade = (path: Path, entries: ReadonlyArray<Entry>, what: string): Finding => {
  const types = [...new Set(entries.map(({ event }) => event.type))]
  const more = types.length - shown
  const named = `${types.slice(0, shown).join(", ")}${more > 0 ? ` and ${more} more` : ""}`
  const hint = 'the sample is the relay\'s own: give the real "object" in a test of the type, or narrow the route'
  return warning(path, `with a sample of ${named} the expression ${what}`, hint)
}

const matching = (patterns: unknown): ReadonlyArray<string> =>
  texts(patterns, []).flatMap(({ text }) =>
    Pattern.problem(text) === undefined ? [...eventTypes, ...relayEventTypes].filter(Pattern.make(text).matches) : [],
  )

const typesOf = (route: Fields): ReadonlyArray<string> => {
  const excepted = new Set(matching(route.except))
  return matching(route.match).filter((type) => !excepted.has(type))
}

/** Returns the types that routes send to a sink. */
const typesTo = (sink: string, root: Fields): ReadonlyArray<string> => [
  ...new Set(
    items(root.routes)
      .map(fields)
      .flatMap((route) => (texts(route.to, []).some(({ text }) => text === sink) ? typesOf(route) : [])),
  ),
]

/** Says why an expression has no result for an event. Returns `undefined` if it has one. */
const nothingOf = (template: Template.Template, entry: Entry): string | undefined => {
  const made = Rendering.attempt(() => template.render(entry))
  // The finding already has the position.
  if (Result.isFailure(made)) return `fails: ${made.failure.message.replace(/^.*? fails: /, "")}`
  return made.success === "null" || made.success === "" ? "makes nothing, only null" : undefined
}

/** Finds conditions that fail for an event that their route matches. */
const conditionSamples = (root: Fields): ReadonlyArray<Finding> =>
  items(root.routes).flatMap((value, index) => {
    const route = fields(value)
    const path = ["routes", index, "where", "jmespath"]
    const text = fields(route.where).jmespath
    if (typeof text !== "string" || conditionRules(text, path).length > 0) return []
    const { holds } = Jmespath.compile(text, "")
    const failing = samplesOf(root, typesOf(route)).filter(({ event }) =>
      Result.isFailure(Rendering.attempt(() => holds(JSON.parse(Buffer.from(event.body).toString("utf8"))))),
    )
    return failing.length === 0 ? [] : [unmade(path, failing, "fails, and such an event is quarantined")]
  })

/** Finds expressions without a result for an event that is routed to their sink. */
export const sampleRules = (root: Fields, types: Types): ReadonlyArray<Finding> => {
  const all: Array<Finding> = [...conditionSamples(root)]
  visitSinks(root, types, (schema, value, path) => {
    if (traitOf(schema, "template") !== true || !Jmespath.isShape(value)) return
    if (shapeRules(value, path, traitOf(schema, "ofAlert")).length > 0) return
    const template = path.at(-1) === "body" ? Template.compileBody(value) : Template.compile(value)
    const entries = samplesOf(root, typesTo(String(path[1]), root))
    const byReason = Map.groupBy(entries, (entry) => nothingOf(template, entry))
    for (const [why, wrong] of byReason) if (why !== undefined) all.push(unmade([...path, "jmespath"], wrong, why))
  })
  return all
}
