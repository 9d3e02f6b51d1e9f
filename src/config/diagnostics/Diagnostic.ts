/**
 * A problem of a config: its position, its message, and what to do.
 *
 * **Gotcha.** A diagnostic is printed and logged, so it contains no resolved value.
 * Its excerpt masks every string except the one that it is about (see `Syntax.ts`),
 * because a secret may be on the same line.
 */
import { Effect, Runtime, Schema } from "effect"
import { count } from "../../formats/Texts.ts"

export const Diagnostic = Schema.Struct({
  severity: Schema.Literals(["error", "warning"]),
  file: Schema.String,
  /** Counted from 1; 0 if the problem has no position in the file. */
  line: Schema.Int,
  column: Schema.Int,
  /** The key's path, `webhooks.scheduling.secrets[0].value`; empty for the file as a whole. */
  key: Schema.String,
  message: Schema.String,
  hint: Schema.optionalKey(Schema.String),
  /** The line with secrets masked, and the underlined part of it, counted from 0. */
  excerpt: Schema.optionalKey(Schema.Struct({ text: Schema.String, start: Schema.Int, length: Schema.Int })),
})
export type Diagnostic = typeof Diagnostic.Type

/** Marks a severity, with a colour if the output has colours. */
type Mark = (severity: Diagnostic["severity"]) => string

const renderOne = ({ severity, file, line, column, key, message, hint, excerpt }: Diagnostic, mark: Mark): string => {
  const place = line === 0 ? file : `${file}:${line}:${column}`
  const lines = [`${place}: ${mark(severity)}${key === "" ? "" : ` at ${key}`}: ${message}`]
  if (excerpt !== undefined) {
    const gutter = " ".repeat(String(line).length)
    lines.push(
      `  ${line} | ${excerpt.text}`,
      `  ${gutter} | ${" ".repeat(excerpt.start)}${"^".repeat(Math.max(1, excerpt.length))}`,
    )
  }
  if (hint !== undefined) lines.push(`  hint: ${hint}`)
  return lines.join("\n")
}

/** Renders diagnostics as text, in the order of the file, with their number at the end. */
export const render = (diagnostics: ReadonlyArray<Diagnostic>, mark: Mark = (severity) => severity): string => {
  const counts = (["error", "warning"] as const).flatMap((severity) => {
    const found = diagnostics.filter((diagnostic) => diagnostic.severity === severity).length
    return found === 0 ? [] : [count(found, severity)]
  })
  return [...diagnostics.map((one) => renderOne(one, mark)), counts.join(", ")].join("\n\n")
}

/** Logs each diagnostic as a line. */
export const logDiagnostics = (diagnostics: ReadonlyArray<Diagnostic>): Effect.Effect<void> =>
  Effect.forEach(
    diagnostics,
    ({ severity, file, line, key, message }) => {
      const words = `${file}:${line}: ${key === "" ? "" : `${key}: `}${message}`
      const logged = severity === "error" ? Effect.logError(words) : Effect.logWarning(words)
      return Effect.annotateLogs(logged, { file, line, key })
    },
    { discard: true },
  )

/** Returns the diagnostics without their excerpts, for `--json`. */
export const toJson = (diagnostics: ReadonlyArray<Diagnostic>): ReadonlyArray<Omit<Diagnostic, "excerpt">> =>
  diagnostics.map(({ excerpt: _, ...rest }) => rest)

/** The config can't be used. Contains all diagnostics, including warnings. The exit code is 78. */
export class ConfigError extends Schema.TaggedError<ConfigError>()("ConfigError", {
  file: Schema.String,
  diagnostics: Schema.Array(Diagnostic),
}) {
  override readonly [Runtime.errorExitCode] = 78
  override get message(): string {
    return render(this.diagnostics)
  }
}
