/**
 * Rules for texts that are the same for every event, and look as if they were to
 * be filled in or read from elsewhere.
 *
 * **Gotcha.** No finding repeats a text: it may hold a secret. It may repeat the
 * path of a field.
 */
import * as Template from "../../formats/Template.ts"
import { type Finding, type Path, warning } from "../diagnostics/Source.ts"
import { isStoreReference } from "./SecretText.ts"

const filled = "each event gets this text itself: "

/** The fields of the envelope that begin a JSON Pointer or a JMESPath. */
const pointer = /^\/(?:id|account_id|version|created_at|data(?:\/[^\s/]+)+)$/
const path =
  /^(?:[$@]\.?|\.|(?:event|envelope|payload|body|this)\.)?(data\.(?:object|type)(?:\.\w[\w-]*)*|account_id|created_at|received_at)$/
/** Words that may be a text of their own, except for a key: one key for all events is rarely meant. */
const words = /^\$?(id|type|resource|webhook)$/
/** A field of the object within a longer expression. */
const expression = /(?:^|[^\w./{])data\.object\.\w/

const file =
  /^(?:\w+ )?(?:@?(?:~|\.{1,2})\/|@?\/(?:etc|home|mnt|opt|root|run|secrets|srv|tmp|usr|var)\/)[\w./-]+$|^@[\w./-]+\.\w{2,4}$/

const placeholderOf = (field: string): string =>
  field.includes(".") ? `{{/${field.replaceAll(".", "/")}}}` : `{{${field}}}`

/** Reports a template without placeholders that looks like a reference to something; `at` is its place. */
export const constantRules = (text: string, at: Path): ReadonlyArray<Finding> => {
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

/** Parts of a text that other keys, or other programs, fill in: placeholders, and dates as `strftime` has them. */
const fillings = /\{\{\s*(?:\/[^{}]*|[a-z_.]+)\s*\}\}|%[YmdHMSF](?![\w%])|%Y/

/** Reports a text that looks like a template, at a key that is not one. */
export const unfilledRules = (text: string, at: Path): ReadonlyArray<Finding> => {
  const [part] = fillings.exec(text) ?? []
  if (part === undefined) return []
  const hint = "the reference of the sink says which keys may hold placeholders"
  return [warning(at, `nothing is filled in here: ${part} is used as it stands`, hint)]
}
