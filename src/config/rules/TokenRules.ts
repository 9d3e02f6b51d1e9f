/** Rules for the tokens of the admin API. */
import { onlyToken } from "../Config.ts"
import { error, type Finding, type Path } from "../diagnostics/Source.ts"
import { type Fields, fields, items } from "../Fields.ts"
import { isName, repeated, texts, weakRules } from "./Shape.ts"

/** The audit log calls whoever asks without a token so. */
const withoutToken = "local"

const nameRules = (name: string, path: Path): ReadonlyArray<Finding> => {
  if (!isName(name))
    return [error(path, "this is no name for a token", "letters, digits, `_`, `-` and `.`, at most 100")]
  if (name !== withoutToken && name !== onlyToken) return []
  const whose = name === onlyToken ? 'whoever uses "admin.token"' : "whoever needs no token"
  return [error(path, `a token can't be called "${name}"`, `the audit log calls ${whose} so`)]
}

export const tokenRules = (root: Fields): ReadonlyArray<Finding> => {
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
    ...named.flatMap(({ text, path }) => nameRules(text, path)),
    ...repeated(named, ({ text }) => text).map(([{ path }]) =>
      error(path, "another token has the same name", "the audit log tells them apart by their names"),
    ),
    ...repeated(values, ({ text }) => text).map(([{ path }]) =>
      error(path, "another token is the same text", "make one for each: `openssl rand -hex 32`"),
    ),
  ]
}
