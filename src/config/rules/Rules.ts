/**
 * Rules between the parts of a config, in addition to their schemas.
 *
 * The rules read the resolved JSON rather than the decoded config, so that one
 * mistake doesn't hide another. They skip values of the wrong shape, which the schema
 * reports.
 */
import { Duration, Option, Schema } from "effect"
import type { EpochMillis } from "../../event/Quantities.ts"
import { onlyToken, stopDeadline } from "../Config.ts"
import { error, type Finding, warning } from "../diagnostics/Source.ts"
import { type Fields, fields, items, type Path } from "../Fields.ts"
import { Drain } from "../schema/ConfigFile.ts"
import { schemaAt, type Types } from "../schema/ConfiguredTypes.ts"
import { traitOf } from "../schema/Traits.ts"
import { idleRules, routeRules, searchIdRules, testRules } from "./RouteRules.ts"
import { mistakeOf, mistakeOfKey } from "./SecretText.ts"
import { deepTexts, isName, repeated, sampleRules, type Text, texts, weakRules } from "./ShapeRules.ts"
import { clientRules, type FileIdentity, fileRules, sinkRules } from "./SinkRules.ts"
import { type HeaderLimit, listenRules, maxHeadersRules, webhookRules } from "./WebhookRules.ts"

// Rules for the waits of a stop.

/** The longest waits for which the stop time in the files of `config/deploy` is enough. */
const longestWaits = Duration.seconds(25)

/** Warns if a service manager would kill the relay before its stop has ended. */
const drainRules = ({ drain }: Fields): ReadonlyArray<Finding> => {
  const waits = Option.getOrUndefined(Schema.decodeUnknownOption(Drain)(drain ?? {}))
  if (waits === undefined) return []
  const total = Duration.sum(waits.delay, waits.refuse)
  if (Duration.isLessThanOrEqualTo(total, longestWaits)) return []
  const needed = Math.ceil(Duration.toSeconds(stopDeadline(waits)))
  return [
    warning(
      ["drain"],
      `"delay" and "refuse" are ${Duration.format(total)} together, so a stop may take ${needed} seconds, and a service manager may kill the relay before`,
      `shorten them, or raise TimeoutStopSec (systemd), stop_grace_period (Compose) or terminationGracePeriodSeconds (Kubernetes) above ${needed} seconds`,
    ),
  ]
}

// Rules for the tokens of the admin API.

/** The name of a caller without a token in the audit log. */
const withoutToken = "local"

const tokenNameRules = (name: string, path: Path): ReadonlyArray<Finding> => {
  if (!isName(name))
    return [error(path, "this is not a name for a token", "letters, digits, `_`, `-` and `.`, at most 100")]
  if (name !== withoutToken && name !== onlyToken) return []
  const whose = name === onlyToken ? 'whoever uses "admin.token"' : "whoever needs no token"
  return [error(path, `a token can't be called "${name}"`, `the audit log calls ${whose} so`)]
}

const tokenRules = (root: Fields): ReadonlyArray<Finding> => {
  const { token, tokens } = fields(root.admin)
  const at: Path = ["admin", "tokens"]
  const all = items(tokens).map(fields)
  const named = all.flatMap(({ name }, index) => texts(name, [...at, index, "name"]))
  const values = all.flatMap(({ value }, index) => texts(value, [...at, index, "value"]))
  const both =
    token === undefined || tokens === undefined
      ? []
      : [
          error(
            ["admin", "token"],
            '"token" and "tokens" can\'t be combined',
            'give this one a name and a role in "tokens"',
          ),
        ]
  return [
    ...both,
    ...weakRules(token, ["admin", "token"], "a token"),
    ...values.flatMap(({ text, path }) => weakRules(text, path, "a token")),
    ...named.flatMap(({ text, path }) => tokenNameRules(text, path)),
    ...repeated(named, ({ text }) => text).map(([{ path }]) =>
      error(path, "another token has the same name", "the audit log tells them apart by their names"),
    ),
    ...repeated(values, ({ text }) => text).map(([{ path }]) =>
      error(path, "another token is the same text", "make one for each: `openssl rand -hex 32`"),
    ),
  ]
}

// Rules for texts that are valid but probably not intended: references in the syntax of other tools,
// and secrets with extra characters around them.
//
// **Gotcha.** A finding never repeats the text, because it may be a secret. It may repeat the name of
// a variable or the path of a file.

/** References in the syntax of other tools. The group is the variable's name, in capitals because a secret may begin with `$`. */
const variables: ReadonlyArray<RegExp> = [
  /^(?:\w+ )?\$([A-Z]+(?:_[A-Z0-9]+)*)$/,
  /^\$([A-Z]+(?:_[A-Z0-9]+)*)(?=[/.:])/,
  /^(?:\w+ )?%([A-Z]+(?:_[A-Z0-9]+)*)%$/,
  /[:/]\$([A-Z]+(?:_[A-Z0-9]+)*)(?=$|[/.:])/,
  // Caddy's forms.
  /\{\$([A-Z]+(?:_[A-Z0-9]+)*)(?::[^}]*)?\}/,
  /(?<![{$])\{env\.([A-Za-z_]\w*)\}/,
]

/** A variable in the syntax of templates. In a template, `Template.ts` reports it. */
const inBraces = /\{\{\s*(?:env|secrets?|vars?)\.([A-Za-z_]\w*)\s*\}\}/i

/** A variable with a prefix. In some keys such a text may be intended, such as the label `env:production`. */
const byPrefix = /^(?:\w+ )?env[:.]([A-Za-z_]\w*)$/i

/** The purpose of a text. Content may contain anything. A secret contains nothing that looks like a reference. */
interface Kind {
  readonly isSecret: boolean
  readonly isTemplate: boolean
  readonly isContent: boolean
}

const literal = (what: string): string => `this is used literally: ${what}`

/** Reports quickly whether a text can contain a reference. Most texts can't, and finding the kind takes longer. */
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

/** Reports whether a key has a secret of the relay or its sender. A password of another service may look like anything. */
const isKey = (path: Path): boolean => path[0] === "webhooks" || path[0] === "admin" || path[2] === "sign"

const secretRules = ({ path, text }: Text): ReadonlyArray<Finding> => {
  const found = isKey(path) ? mistakeOfKey(text) : mistakeOf(text)
  return found === undefined ? [] : [warning(path, found.message, found.hint)]
}

/** Checks texts in the config as `written` and as `resolved`. */
const textRules = (written: unknown, resolved: Fields, types: Types): ReadonlyArray<() => ReadonlyArray<Finding>> => {
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
  // The private key of a certificate may be the name of a file.
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

/**
 * Returns all rules as steps, each of which is short. They check the config as written and with its references
 * resolved.
 */
export const steps = (
  written: unknown,
  resolved: unknown,
  types: Types & FileIdentity & HeaderLimit,
  now: EpochMillis,
): ReadonlyArray<() => ReadonlyArray<Finding>> => {
  const root = fields(resolved)
  return [
    ...textRules(written, root, types),
    () => [
      ...listenRules(root),
      ...maxHeadersRules(root, types),
      ...drainRules(root),
      ...tokenRules(root),
      ...webhookRules(root, now),
    ],
    () => sinkRules(root, types),
    () => sampleRules(root, types),
    () => fileRules(root, types),
    ...routeRules(root),
    () => [...testRules(root), ...clientRules(root), ...searchIdRules(root)],
  ]
}

export const idle = (resolved: unknown): ReadonlyArray<Finding> => idleRules(fields(resolved))
