/**
 * Reports why a text can't be the intended secret: it has extra characters around it,
 * or is something else.
 *
 * **Guarantee.** A report contains nothing of the text except the code point of an
 * invisible character.
 */
import { Redacted } from "effect"
import type { EpochMillis } from "../../event/Quantities.ts"
import { parsedJson } from "../../event/Tolerance.ts"
import { expiresWithin, type Secret } from "../Config.ts"

/** A mistake in a text, and how to fix it. */
export interface Mistake {
  readonly message: string
  readonly hint: string
}

type Check = (text: string) => Mistake | undefined

const stored = "remove it where the secret is stored"
const itself = "give the secret alone, as the other side has it"
const fetched = 'have a tool write the secret to a file or a variable: "file:PATH" or "${VAR}"'

const when = (pattern: RegExp, message: string, hint: string): Check => {
  const mistake = { message, hint }
  return (text) => (pattern.test(text) ? mistake : undefined)
}

/** Invisible characters: ignorable and format characters, controls except line breaks and tabs, unusual blanks, and U+FFFD. */
const unseen = /[\p{DI}\p{Cf}\p{Zl}\p{Zp}\ufffd]|(?![\t\n\r])\p{Cc}|(?! )\p{Zs}/u

const invisible: Check = (text) => {
  const [found] = unseen.exec(text) ?? []
  if (found === undefined) return undefined
  const point = found.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")
  const message = `this secret holds a character that can't be seen (U+${point}), which counts as part of it`
  return { message, hint: "copy the secret again, or type it: editors, chats and PDFs add such characters" }
}

const edges: Check = (text) => {
  const [before = "", after = ""] = [/^\s*/, /\s*$/].map((edge) => edge.exec(text)?.[0])
  if (text.trim() === "" || before + after === "") return undefined
  const where = before === "" ? "ends" : "begins"
  const what = /[\r\n]/.test(before || after) ? "a line break" : "a blank"
  return { message: `this secret ${where} with ${what}, which counts as part of it`, hint: stored }
}

/** References of secret stores and of tools that encrypt files. The relay doesn't resolve them. */
const reference = new RegExp(
  [
    String.raw`^arn:[\w-]+:(?:secretsmanager|ssm|kms):`,
    "^(?:vault|bao|ssm|secretsmanager|secretref):",
    String.raw`^(?:ref\+\w+|op|infisical|doppler|gcpsm|awssm|sm|akvs?)://`,
    String.raw`^(?:secret|kv)/(?:data/)?[\w/-]+(?:#[\w-]+)?$`,
    String.raw`^projects/[^/\s]+/secrets/[^/\s]+`,
    String.raw`^https://[^/\s]+\.vault\.azure\.net/`,
    String.raw`^@Microsoft\.KeyVault\(`,
    String.raw`^\{\{resolve:`,
    String.raw`^(?:\$ANSIBLE_VAULT;|!vault\b)`,
    String.raw`^ENC\[.*\]$`,
  ].join("|"),
  "is",
)

/** Reports whether a text refers to a secret store. */
export const isStoreReference = (text: string): boolean => reference.test(text)

const store = when(
  reference,
  "this refers to a secret store, which the relay doesn't ask, and is used as the secret itself",
  fetched,
)

/** Checks of every secret. The first that applies is reported. */
const ofAll: ReadonlyArray<Check> = [
  when(
    /^<[^>]*>$|^(change.?me|your[-_ ].*|x{3,}|todo)$/i,
    "this looks like a placeholder",
    "replace it by the secret: file:PATH or ${VAR}",
  ),
  store,
  when(
    /^(~|\.{0,2})(\/[a-z0-9._-]+){2,}$/,
    "this looks like a path, and is used as the secret itself",
    'for the file\'s content put "file:" in front',
  ),
  invisible,
  edges,
  when(
    /^(["']).*\1$/s,
    "this secret is in quotes, which count as part of it",
    "remove them where the secret is stored",
  ),
]

const assignments: ReadonlyArray<RegExp> = [
  /^(?:export|set|env|declare(?: -\w+)?) +\w+ *=|^\$env:\w+ *=/i,
  // A base32 or base64 text may end with `=`.
  /^[A-Z][A-Z0-9_]{2,}(?: *=(?!=*$)|: )/,
  /^[\w.-]*(?:secret|token|key|password|hmac)[\w.-]*(?: *=(?!=*$)|: )/i,
]

const assignment: Check = (text) =>
  assignments.some((form) => form.test(text))
    ? {
        message: "this is a name with a value (KEY=value), and the whole text counts as the secret",
        hint: "store the value alone, without its name, `=` and `export`",
      }
    : undefined

const json: Check = (text) => {
  if (!/^\s*[{[]/.test(text) || parsedJson(text) === undefined) return undefined
  return {
    message: "this is JSON, and the whole text counts as the secret",
    hint: "store the value alone: `jq -r .NAME` prints it",
  }
}

/** Checks of the secrets of the relay and its sender, which are one line of text. Secrets of other services may differ. */
const ofKeys: ReadonlyArray<Check> = [
  store,
  json,
  assignment,
  when(/^arn:[\w-]+:/i, "this is the name of a resource of AWS, and is used as the secret itself", fetched),
  when(/^sha256=/i, "this looks like a signature, and is used as the secret itself", itself),
  when(/^(?:Bearer|Basic) \S/i, "this begins with a scheme, such as Bearer, which counts as part of it", itself),
  when(/^-----BEGIN /, "this is a PEM file, and the whole text counts as the secret", itself),
  when(/^[a-z][a-z0-9+.-]*:\/\/\S+$/i, "this is a URL, and is used as the secret itself", itself),
  when(/\S\s*[\r\n]+\s*\S/, "this secret has several lines, and each counts as part of it", itself),
]

const first = (checks: ReadonlyArray<Check>, text: string): Mistake | undefined => {
  for (const check of checks) {
    const found = check(text)
    if (found !== undefined) return found
  }
  return undefined
}

/** Returns why a text can't be a secret of any kind, such as a password. */
export const mistakeOf: Check = (text) => first(ofAll, text)

/** Returns why a text can't be a signing secret or one of the relay's own tokens. */
export const mistakeOfKey: Check = (text) => first(ofKeys, text) ?? mistakeOf(text)

/** Returns the mistakes in the signing secrets that have not expired. */
export const mistakenSecrets = (
  secrets: ReadonlyArray<Secret>,
  now: EpochMillis,
): ReadonlyArray<Mistake & Pick<Secret, "name">> =>
  secrets.flatMap((secret) => {
    const mistake = expiresWithin(secret, 0, now) ? undefined : mistakeOfKey(Redacted.value(secret.value))
    return mistake === undefined ? [] : [{ name: secret.name, ...mistake }]
  })
