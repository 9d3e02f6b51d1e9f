/**
 * Rules for texts that are taken as they are, though something else was probably
 * meant: the references of other tools, and secrets with something around them.
 *
 * **Gotcha.** No finding repeats a text: it may be a secret. It may repeat the name
 * of a variable or the path of a file.
 */
import { error, type Finding, type Path, warning } from "../diagnostics/Source.ts"
import type { Fields } from "../Fields.ts"
import { schemaAt, type Types } from "../schema/ConfiguredTypes.ts"
import { traitOf } from "../schema/Traits.ts"
import { mistakeOf, mistakeOfKey } from "./SecretText.ts"
import { deepTexts, type Text } from "./Shape.ts"

/** References as others write them, with the variable's name as a group. It is in capitals: a secret may begin with `$`. */
const variables: ReadonlyArray<RegExp> = [
  /^(?:\w+ )?\$([A-Z]+(?:_[A-Z0-9]+)*)$/,
  /^\$([A-Z]+(?:_[A-Z0-9]+)*)(?=[/.:])/,
  /^(?:\w+ )?%([A-Z]+(?:_[A-Z0-9]+)*)%$/,
  /[:/]\$([A-Z]+(?:_[A-Z0-9]+)*)(?=$|[/.:])/,
  // Caddy's forms.
  /\{\$([A-Z]+(?:_[A-Z0-9]+)*)(?::[^}]*)?\}/,
  /(?<![{$])\{env\.([A-Za-z_]\w*)\}/,
]

/** A variable as in a template; where templates are filled in, `Template.ts` reports it. */
const inBraces = /\{\{\s*(?:env|secrets?|vars?)\.([A-Za-z_]\w*)\s*\}\}/i

/** A variable by its prefix, which elsewhere may be what is meant: a label such as `env:production`. */
const byPrefix = /^(?:\w+ )?env[:.]([A-Za-z_]\w*)$/i

/** The purpose of a text: content may hold anything, a secret holds nothing that looks like a reference. */
interface Kind {
  readonly isSecret: boolean
  readonly isTemplate: boolean
  readonly isContent: boolean
}

const literal = (what: string): string => `this is used literally: ${what}`

/** Whether a text may be any of these: most are none, and of what kind one is takes long to tell. */
const mayBeLiteral = (text: string): boolean => /[$%]|\{\{|env[:.]| file:/i.test(text)

const literalRules = (one: Text, kindOf: (path: Path) => Kind): ReadonlyArray<Finding> => {
  const { path, text } = one
  if (!mayBeLiteral(text)) return []
  const { isSecret, isTemplate, isContent } = kindOf(path)
  if (isContent && !isSecret) return []
  const forms = [...variables, ...(isTemplate ? [] : [inBraces]), ...(isSecret ? [byPrefix] : [])]
  const name = forms.map((form) => form.exec(text)?.[1]).find((found) => found !== undefined)
  if (name !== undefined) {
    return [error(path, literal("a variable is written with braces"), `did you mean \${${name}}?`)]
  }
  if (/^\$\(.*\)$/s.test(text)) {
    return [error(path, literal("no command is run"), 'let it write a file, and name that: "file:PATH"')]
  }
  const [, file] = /^\S+ file:(\S+)$/.exec(text) ?? []
  return file === undefined
    ? []
    : [error(path, literal('"file:" names a file only where a text begins'), `within a text write \${file:${file}}`)]
}

/** Secrets of the relay and its sender; a password of another service may look like anything. */
const isKey = (path: Path): boolean => path[0] === "webhooks" || path[0] === "admin" || path[2] === "sign"

const secretRules = ({ path, text }: Text): ReadonlyArray<Finding> => {
  const found = isKey(path) ? mistakeOfKey(text) : mistakeOf(text)
  return found === undefined ? [] : [warning(path, found.message, found.hint)]
}

/** `written` is the config as it is written, `resolved` with what its references give. */
export const textRules = (
  written: unknown,
  resolved: Fields,
  types: Types,
): ReadonlyArray<() => ReadonlyArray<Finding>> => {
  const schemaOf = schemaAt(types)
  const has = (path: Path, trait: "template" | "shown", value: boolean): boolean =>
    path.some((_, index) => {
      const schema = schemaOf(path.slice(0, index + 1), resolved)
      return schema !== undefined && traitOf(schema, trait) === value
    })
  const kindOf = (path: Path): Kind => {
    const isTemplate = has(path, "template", true)
    const isOfEvents = path[0] === "tests" || path.includes("where") || path.includes("attributes")
    return { isSecret: has(path, "shown", false), isTemplate, isContent: isTemplate || isOfEvents }
  }
  // The key of a certificate may be a file.
  const isPlainSecret = (path: Path) => {
    const { isSecret, isTemplate } = kindOf(path)
    return isSecret && !isTemplate && path.at(-2) !== "tls"
  }
  return [
    () => deepTexts(written, []).flatMap((one) => literalRules(one, kindOf)),
    () =>
      deepTexts(resolved, []).flatMap((one) => {
        const found = secretRules(one)
        return found.length > 0 && isPlainSecret(one.path) ? found : []
      }),
  ]
}
