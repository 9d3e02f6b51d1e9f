/**
 * Resolves `${VAR}`, `${VAR:-default}`, `${file:PATH}` and `file:PATH` in the config's
 * texts. `file:PATH` must be the whole text. The others may be anywhere in a text, and a
 * path may contain variables.
 *
 * They are resolved once, when the config loads. `$${` is a literal `${`. A check may
 * continue without absent values, which samples replace (`Load.ts`).
 *
 * **Guarantee.** A resolved text is never shown. Findings name the variable or file.
 */
import { Context, Effect, type FileSystem, Option, PlatformError, Result } from "effect"
import { nearest } from "../../event/Nearest.ts"
import * as Numbers from "../../event/Numbers.ts"
import { orUndefined } from "../../event/Tolerance.ts"
import { error, type Finding } from "../diagnostics/Source.ts"
import type { Path } from "../Fields.ts"

// Reads the config and the files that it names.
//
// **Gotcha.** Opening a pipe without a writer never returns, and would block every later reload.
// Only files that the process got at its start, such as `/dev/stdin`, may be pipes.

const inherited = /^\/(?:dev\/(?:stdin$|fd\/)|proc\/self\/fd\/)/

/** The maximum size of each kind of file, in bytes. */
export const largest = {
  /** A config of 100,000 routes is smaller. */
  config: 32 * 1024 * 1024,
  /** Secrets, tokens and other values. */
  value: 64 * 1024,
  /** Certificates and keys. A system's list of all authorities is smaller. */
  certificates: 1024 * 1024,
}

/** Limits the time to open a file, because a pipe may replace it just before. */
const patience = "10 seconds"

const sizeInWords = (bytes: number): string =>
  bytes < 1024 * 1024 ? `${bytes / 1024} KiB` : `${bytes / 1024 / 1024} MiB`

const noFile = (path: string, description?: string) =>
  PlatformError.systemError({
    _tag: "BadResource",
    module: "FileSystem",
    method: "readFile",
    pathOrDescriptor: path,
    ...(description !== undefined && { description }),
  })

/** Adds the owner's number and the mode of a file that may not be read, as `ls -n` shows them. */
const withOwner = (error: PlatformError.PlatformError, { uid, mode }: FileSystem.File.Info) => {
  const { reason } = error
  if (reason._tag !== "PermissionDenied" || Option.isNone(uid)) return error
  const description = `it belongs to the user ${uid.value} and has the mode ${(mode & 0o7777).toString(8).padStart(4, "0")}`
  return PlatformError.systemError({
    _tag: "PermissionDenied",
    module: "FileSystem",
    method: "readFile",
    pathOrDescriptor: reason.pathOrDescriptor ?? "",
    description,
  })
}

/** The text that each file had when it was last read, by path. Empty if it could not be read. */
export type FileTexts = Map<string, string>

/** Collects the files that loading a config reads, to watch them. Pipes are left out. */
export const ReadFiles = Context.Reference<FileTexts | undefined>("relay/config/load/ReadFiles", {
  defaultValue: () => undefined,
})

/** Makes a `readFile` for regular files. It notes each text in `files`. */
export const readerOf =
  ({ readFile, stat }: FileSystem.FileSystem, files?: FileTexts) =>
  (path: string, most = largest.config): Effect.Effect<Uint8Array, PlatformError.PlatformError> => {
    if (inherited.test(path)) return readFile(path)
    const note = (text: string) => Effect.sync(() => files?.set(path, text))
    const read = (found: FileSystem.File.Info) => {
      if (found.type !== "File") return Effect.fail(noFile(path))
      if (found.size > most) return Effect.fail(noFile(path, `it is larger than ${sizeInWords(most)}`))
      return readFile(path).pipe(
        Effect.mapError((error) => withOwner(error, found)),
        Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.fail(noFile(path, "it does not open")) }),
      )
    }
    return Effect.flatMap(stat(path), read).pipe(
      Effect.tap((bytes) => note(new TextDecoder().decode(bytes))),
      Effect.tapError(() => note("")),
    )
  }

export interface Environment {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Fails if the file has more than `most` bytes. */
  readonly readFile: (path: string, most?: number) => Effect.Effect<Uint8Array, PlatformError.PlatformError>
  /** Returns why a default config isn't trusted, such as another user who may have written it. */
  readonly distrust?: (file: string) => string | undefined
}

/** Matches `$${`, `${file:PATH}` whose path may contain variables, or `${NAME}`. */
const reference = /\$\$\{|\$\{file:(?!-)((?:\$\{[^}]*\}|[^}])*)(\}?)|\$\{([^}]*)(\}?)/g

/** The state while a text is resolved. */
interface Reading {
  readonly path: Path
  readonly wrong: Array<Finding>
  /** Values that are absent here and may exist on the relay's machine. */
  readonly absent: Array<Finding>
  /** The words in place of absent values, each with the reference as messages show it. */
  readonly words: Map<string, string>
}

/** A text with an absent variable or file. */
interface Absence extends Finding {
  /** The text for messages, in which each absent reference is unresolved and has a remark. */
  readonly shown: string
}

const shownWith = (words: ReadonlyMap<string, string>, text: string): string =>
  [...words]
    .toSorted(([one], [other]) => other.length - one.length)
    .reduce((all, [word, reference]) => all.replaceAll(word, reference), text)

/**
 * Returns a word for an absent value. It differs by name and is valid in an address, a header or a path.
 */
const wordFor = (name: string): string => `absent-${name.replaceAll(/[^A-Za-z0-9]+/g, "-")}`

/** Returns the value of a variable, or `undefined` if the reference is wrong. */
const variable = (
  inside: string,
  env: Environment["env"],
  { path, wrong, absent, words }: Reading,
): string | undefined => {
  const [name = "", fallback] = inside.split(/:-(.*)/s)
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    const forms = "a reference is `${NAME}`, `${NAME:-default}` or `${file:PATH}`"
    // The syntax of GitHub, Vite and others.
    const [, meant] = /^\{?\s*(?:env|secrets|vars|process\.env)\.([A-Za-z_]\w*)\s*$/.exec(name) ?? []
    const hint = name.startsWith("!")
      ? "nothing is computed here; the fields of an event are written {{type}} and {{/data/object/id}}"
      : "a name has letters, digits and `_`"
    wrong.push(error(path, forms, meant === undefined ? hint : `did you mean \${${meant}}?`))
    return undefined
  }
  const value = Object.hasOwn(env, name) ? env[name] : undefined
  if (fallback !== undefined) return value === undefined || value === "" ? fallback : value
  if (value !== undefined) return value
  absent.push(error(path, `the variable ${name} is not set`, hintForVariable(name, env)))
  words.set(wordFor(name), `\${${name}} (not set)`)
  return wordFor(name)
}

const hintForVariable = (name: string, env: Environment["env"]): string => {
  if (name === "CREDENTIALS_DIRECTORY") {
    return "systemd sets it for a service with LoadCredential=; elsewhere set it to the directory that the files are in"
  }
  const near = nearest(name, Object.keys(env))
  return near === undefined
    ? `set ${name}, or give it a default: \${${name}:-…}`
    : `${near} is set: did you mean \${${near}}?`
}

const denied = "permission denied"

/** Says why a file could not be read. */
export const reasonOf = (cause: PlatformError.PlatformError): string => {
  switch (cause.reason._tag) {
    case "NotFound":
      return "there is no such file"
    case "PermissionDenied":
      return cause.reason.description === undefined ? denied : `${denied}; ${cause.reason.description}`
    case "BadResource":
      return cause.reason.description ?? "it is not a file"
    default:
      return "it can't be read"
  }
}

/** Says what to do about a file that can't be read. */
const hintForFile = (file: string, written: string, reason: string): string => {
  if (/^\s/.test(file)) return 'no blank follows "file:"'
  if (file.startsWith("~")) return "`~` is a shell's: write the whole path, or ${HOME}"
  if (reason.startsWith(denied) && written.includes("${CREDENTIALS_DIRECTORY}")) {
    return "only root may read the credentials of the service: run this command as root"
  }
  if (reason.startsWith(denied)) return "let the relay's user read it, or run this command as that user"
  if (reason !== "there is no such file") return "name a file that holds the value, as text"
  if (written.includes("${CREDENTIALS_DIRECTORY}")) {
    return `the unit names what is there: LoadCredential=${file.slice(file.lastIndexOf("/") + 1)}:PATH. systemd copies a new one when it starts the service: \`systemctl restart relay\``
  }
  return file.startsWith("/") ? "correct the path" : "paths are relative to the directory that relay is started in"
}

/** Reports whether the relay's own user may be able to read the file, or its machine may have it. */
export const mayBeElsewhere = ({ reason }: PlatformError.PlatformError): boolean =>
  reason._tag === "NotFound" || reason._tag === "PermissionDenied"

/** Decodes UTF-8 and drops a byte order mark. Returns `undefined` for other encodings. */
export const decodeText = (bytes: Uint8Array): string | undefined =>
  orUndefined(() => new TextDecoder("utf-8", { fatal: true }).decode(bytes))

/** Removes the defaults of variables, which may be secrets. */
const withoutDefaults = (written: string): string => written.replace(/(\$\{[^}]*?:-)[^}]*/g, "$1…")

/** Lists the references of an unresolved text, for messages; empty if it has none. */
export const referencesIn = (written: unknown): string => {
  if (typeof written !== "string") return ""
  if (written.startsWith("file:")) return withoutDefaults(written)
  const all = [...written.matchAll(reference)].map(([whole]) => whole).filter((whole) => whole !== "$${")
  return all.map(withoutDefaults).join(" and ")
}

/**
 * Reports whether the text refers to a credential of the relay's service. Only the service's own process may know its
 * directory.
 */
export const isCredential = (written: string, env: Environment["env"]): boolean =>
  written.includes("${CREDENTIALS_DIRECTORY}") && env.CREDENTIALS_DIRECTORY === undefined

/** A shorter text may occur in messages by chance, and is not a secret. */
const shortestHidden = 4

/**
 * Replaces a missing reference with sample text, so that the rest can be checked. Returns `undefined` if no sample
 * fits.
 */
export type StandIn = (text: string, path: Path) => string | undefined

/**
 * Resolves every text below `value`. A text that can't be resolved has a finding. If only a value is absent, `standIn`
 * replaces the text. If the config may lack the value, the text is listed in `absent` and has no finding. `hide`
 * removes resolved texts from a finding.
 */
export const resolve = Effect.fnUntraced(function* (
  value: unknown,
  path: Path,
  environment: Environment,
  standIn: StandIn = () => undefined,
  mayLack: (written: string) => boolean = () => false,
) {
  const findings: Array<Finding> = []
  const absences: Array<Absence> = []
  const resolved = new Set<string>()
  const keep = (text: string, written: string): string => {
    if (text !== written && text.length >= shortestHidden) resolved.add(text)
    return text
  }

  /** Reads a file without its last line break. */
  const content = Effect.fnUntraced(function* (file: string, written: string, { path, wrong, absent, words }: Reading) {
    const shown = withoutDefaults(written)
    words.set(wordFor(file), `${shown} (not read)`)
    // If a variable in the path is absent, so is the file.
    if (absent.length > 0) return wordFor(file)
    const fault = (why: string): Finding =>
      error(path, `the file of "${shown}" can't be read: ${why}`, hintForFile(file, written, why))
    const read = yield* Effect.result(environment.readFile(file, largest.value))
    if (Result.isFailure(read)) {
      const into = mayBeElsewhere(read.failure) ? absent : wrong
      into.push(fault(reasonOf(read.failure)))
      return wordFor(file)
    }
    const text = decodeText(read.success)?.replace(/\r?\n$/, "")
    if (text === undefined) wrong.push(fault("it is not UTF-8 text"))
    return text
  })

  const replacement = Effect.fnUntraced(function* (
    [whole, file, closesFile, inside = "", closes]: RegExpExecArray,
    reading: Reading,
  ): Effect.fn.Return<string | undefined> {
    if (whole === "$${") return "${"
    if ((closesFile ?? closes) === "") {
      reading.wrong.push(
        error(reading.path, "a `${` has no `}`", "close it, or write `$${` for the two characters themselves"),
      )
      return undefined
    }
    if (file === undefined) return variable(inside, environment.env, reading)
    const path = yield* filled(file, reading)
    const read = path === undefined ? undefined : yield* content(path, whole, reading)
    return read === undefined ? undefined : keep(read, whole)
  })

  /** Returns the text with all references resolved. */
  const filled = Effect.fnUntraced(function* (written: string, reading: Reading): Effect.fn.Return<string | undefined> {
    let text: string | undefined = ""
    let end = 0
    for (const match of written.matchAll(reference)) {
      const value = yield* replacement(match, reading)
      text = text === undefined || value === undefined ? undefined : text + written.slice(end, match.index) + value
      end = match.index + match[0].length
    }
    return text === undefined ? undefined : text + written.slice(end)
  })

  const whole = Effect.fnUntraced(function* (written: string, reading: Reading) {
    const replaced = yield* filled(written, reading)
    if (replaced === undefined) return undefined
    // The content of a file is not resolved again.
    const isFile = replaced.startsWith("file:") && !written.startsWith("${file:")
    return isFile ? yield* content(replaced.slice("file:".length), written, reading) : replaced
  })

  const text = Effect.fnUntraced(function* (written: string, path: Path): Effect.fn.Return<string | undefined> {
    const reading: Reading = { path, wrong: [], absent: [], words: new Map() }
    const { wrong, absent } = reading
    const read = yield* whole(written, reading)
    if (read === undefined || wrong.length > 0) {
      findings.push(...wrong, ...absent)
      return undefined
    }
    if (absent.length === 0) return keep(read, written)
    const text = standIn(read, path)
    if (text === undefined || !mayLack(written)) findings.push(...absent)
    else {
      const credentials = isCredential(written, environment.env)
        ? [error(path, "can't be read here: it is a credential of the service")]
        : absent
      absences.push(...credentials.map((one) => ({ ...one, shown: shownWith(reading.words, read) })))
    }
    return text
  })

  const walk = Effect.fnUntraced(function* (node: unknown, at: Path): Effect.fn.Return<unknown> {
    if (typeof node === "string") return at.length === 1 && at[0] === "$schema" ? node : yield* text(node, at)
    if (Array.isArray(node)) {
      const items: Array<unknown> = []
      for (const [index, item] of node.entries()) items.push(yield* walk(item, [...at, index]))
      return items
    }
    if (typeof node !== "object" || node === null || Numbers.isNumber(node)) return node
    const entries: Array<readonly [string, unknown]> = []
    for (const [key, item] of Object.entries(node)) {
      const inside = yield* walk(item, [...at, key])
      if (inside !== undefined) entries.push([key, inside])
    }
    return Object.fromEntries(entries)
  })

  const root = yield* walk(value, path)
  const scrub = (message: string): string =>
    [...resolved].reduce((text, secret) => text.replaceAll(secret, "…"), message)
  const hide = (finding: Finding): Finding => ({
    ...finding,
    message: scrub(finding.message),
    ...(finding.hint === undefined ? {} : { hint: scrub(finding.hint) }),
  })
  return { value: root, findings, absent: absences, hide }
})
