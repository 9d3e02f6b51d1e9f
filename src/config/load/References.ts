/**
 * `${VAR}`, `${VAR:-default}`, `${file:PATH}` and `file:PATH` in the config's
 * texts. The last one is a whole text; the others stand anywhere in it, a
 * variable also in a path.
 *
 * They are resolved once, when the config loads. `$${` is a literal `${`.
 *
 * **Guarantee.** A resolved text is never shown: findings name the variable or
 * the file.
 */
import { Effect, type PlatformError } from "effect"
import { error, type Finding, type Path } from "../diagnostics/Source.ts"

export interface Environment {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly readFile: (path: string) => Effect.Effect<Uint8Array, PlatformError.PlatformError>
}

/** `$${`; or `${file:`, a path that may hold variables, and `}`; or `${`, a name and `}`. */
const reference = /\$\$\{|\$\{file:(?!-)((?:\$\{[^}]*\}|[^}])*)(\}?)|\$\{([^}]*)(\}?)/g

/** The value of a variable; `undefined` when there is none, with a finding. */
const variable = (
  inside: string,
  path: Path,
  env: Environment["env"],
  findings: Array<Finding>,
): string | undefined => {
  const fail = (message: string, hint: string): undefined => {
    findings.push(error(path, message, hint))
  }
  const [name = "", fallback] = inside.split(/:-(.*)/s)
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    return fail("a reference is `${NAME}`, `${NAME:-default}` or `${file:PATH}`", "a name has letters, digits and `_`")
  }
  const value = env[name]
  if (fallback !== undefined) return value === undefined || value === "" ? fallback : value
  return value ?? fail(`the variable ${name} is not set`, `set ${name}, or give it a default: \${${name}:-…}`)
}

/** Why a file could not be read. */
export const reasonOf = (cause: PlatformError.PlatformError): string => {
  switch (cause.reason._tag) {
    case "NotFound":
      return "there is no such file"
    case "PermissionDenied":
      return "permission denied"
    case "BadResource":
      return "it is not a file"
    default:
      return "it can't be read"
  }
}

/** UTF-8 and nothing else; a byte order mark is dropped. */
export const decodeText = (bytes: Uint8Array): string | undefined => {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** A shorter text occurs in messages by chance, and is not a secret. */
const shortestHidden = 4

/**
 * Resolves every text below `value`. A text that can't be resolved is left out,
 * with a finding. `hide` removes resolved texts from a finding.
 */
export const resolve = Effect.fnUntraced(function* (value: unknown, path: Path, environment: Environment) {
  const findings: Array<Finding> = []
  const resolved = new Set<string>()
  const keep = (text: string, written: string): string => {
    if (text !== written && text.length >= shortestHidden) resolved.add(text)
    return text
  }

  /** The content of a file, less its last line break. */
  const content = Effect.fnUntraced(function* (file: string, written: string, at: Path) {
    // The default of a variable may be a secret; its name is not.
    const shown = written.replace(/(\$\{[^}]*?:-)[^}]*/g, "$1…")
    const fail = (why: string) => {
      findings.push(
        error(
          at,
          `the file of "${shown}" can't be read: ${why}`,
          "paths are relative to the directory that relay is started in",
        ),
      )
      return undefined
    }
    return yield* environment.readFile(file).pipe(
      Effect.map((bytes) => decodeText(bytes)?.replace(/\r?\n$/, "") ?? fail("it is not UTF-8 text")),
      Effect.catch((cause) => Effect.sync(() => fail(reasonOf(cause)))),
    )
  })

  const replacement = Effect.fnUntraced(function* (
    [whole, file, closesFile, inside = "", closes]: RegExpExecArray,
    at: Path,
  ): Effect.fn.Return<string | undefined> {
    if (whole === "$${") return "${"
    if ((closesFile ?? closes) === "") {
      findings.push(error(at, "a `${` has no `}`", "write `$${` for the two characters themselves"))
      return undefined
    }
    if (file === undefined) return variable(inside, at, environment.env, findings)
    const path = yield* filled(file, at)
    const read = path === undefined ? undefined : yield* content(path, whole, at)
    return read === undefined ? undefined : keep(read, whole)
  })

  /** A text with each reference in it replaced. */
  const filled = Effect.fnUntraced(function* (written: string, at: Path): Effect.fn.Return<string | undefined> {
    let text: string | undefined = ""
    let end = 0
    for (const match of written.matchAll(reference)) {
      const value = yield* replacement(match, at)
      text = text === undefined || value === undefined ? undefined : text + written.slice(end, match.index) + value
      end = match.index + match[0].length
    }
    return text === undefined ? undefined : text + written.slice(end)
  })

  const text = Effect.fnUntraced(function* (written: string, at: Path): Effect.fn.Return<string | undefined> {
    const replaced = yield* filled(written, at)
    if (replaced === undefined) return undefined
    // What a file holds names no other file.
    const isFile = replaced.startsWith("file:") && !written.startsWith("${file:")
    const read = isFile ? yield* content(replaced.slice("file:".length), written, at) : replaced
    return read === undefined ? undefined : keep(read, written)
  })

  const walk = Effect.fnUntraced(function* (node: unknown, at: Path): Effect.fn.Return<unknown> {
    if (typeof node === "string") return at.length === 1 && at[0] === "$schema" ? node : yield* text(node, at)
    if (Array.isArray(node)) {
      const items: Array<unknown> = []
      for (const [index, item] of node.entries()) items.push(yield* walk(item, [...at, index]))
      return items
    }
    if (typeof node !== "object" || node === null) return node
    const entries: Array<readonly [string, unknown]> = []
    for (const [key, item] of Object.entries(node)) {
      const inside = yield* walk(item, [...at, key])
      if (inside !== undefined) entries.push([key, inside])
    }
    return Object.fromEntries(entries)
  })

  const whole = yield* walk(value, path)
  const scrub = (message: string): string =>
    [...resolved].reduce((text, secret) => text.replaceAll(secret, "…"), message)
  const hide = (finding: Finding): Finding => ({
    ...finding,
    message: scrub(finding.message),
    ...(finding.hint === undefined ? {} : { hint: scrub(finding.hint) }),
  })
  return { value: whole, findings, hide }
})
