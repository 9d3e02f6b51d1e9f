/**
 * Reads the PEM files that a config names, so that the config holds their contents.
 * A reload then sees a renewed file like any other change.
 *
 * **Guarantee.** The config loads only if the listener's files can be used. An
 * unusable file of a sink affects only this sink: the config keeps the file's name,
 * and the sink reports why it can't be opened. Unusable files and expired
 * certificates are `faults`.
 */
import { Effect, type PlatformError, Result } from "effect"
import type { EpochMillis } from "../../event/Quantities.ts"
import { type Certificate, chainProblem, isPem, keyProblem, type Problem, parse, timeProblem } from "../Certificate.ts"
import { error, type Finding, formatPath, warning } from "../diagnostics/Source.ts"
import { type Fields, fields, type Path } from "../Fields.ts"
import { type Types, visitSinks, writtenJournal } from "../schema/ConfiguredTypes.ts"
import { traitOf, type Visitor, visit } from "../schema/Traits.ts"
import { decodeText, type Environment, largest, mayBeElsewhere, reasonOf } from "./References.ts"

interface Options extends Environment, Types {
  readonly mayLack?: boolean | "credentials"
  readonly now: EpochMillis
  /** Reports whether the value at a path is unknown, because it is absent or already has a finding. */
  readonly isUnknown: (path: Path) => boolean
}

/** A finding. It has the certificate's fingerprint if only its time is wrong. */
interface Fault {
  readonly finding: Finding
  readonly fingerprint?: string
}

export interface CertificateFiles {
  /** The config with the files' content in place of their names. */
  readonly root: Fields
  readonly certificates: ReadonlyArray<Certificate>
  readonly errors: ReadonlyArray<Finding>
  readonly faults: ReadonlyArray<Fault>
  readonly warnings: ReadonlyArray<Finding>
  /** Files that are absent here, for checks that continue without them. */
  readonly absent: ReadonlyArray<Finding>
}

/** A part of a config that names certificates, with their keys. */
interface Place {
  readonly path: Path
  readonly names: Fields
}

const placesOf = (root: Fields, types: Types): ReadonlyArray<Place> => {
  const found: Array<Place> = [{ path: ["tls"], names: fields(root.tls) }]
  const on: Visitor = (schema, value, path) => {
    if (traitOf(schema, "certificates") === true) found.push({ path, names: fields(value) })
  }
  visitSinks(root, types, on)
  visit(writtenJournal(root, types), fields(root.journal), ["journal"], on)
  return found
}

const replaced = (value: Fields, [key = "", ...rest]: Path, by: string): Fields => ({
  ...value,
  [key]: rest.length === 0 ? by : replaced(fields(value[key]), rest, by),
})

const unreadable = (role: string, name: string, path: Path, cause: PlatformError.PlatformError): Finding => {
  // The value of "key" isn't shown, because it may be a damaged key rather than a path.
  const file = role === "key" ? "the file" : `the file ${name}`
  const hint = "paths are relative to the directory that relay is started in, and the relay's user must be able to read"
  return error(path, `${file} can't be read: ${reasonOf(cause)}`, hint)
}

/** The certificate is before its key, because the key is compared with it. */
const roles = ["ca", "certificate", "key"] as const

export const read = Effect.fnUntraced(function* (
  config: Fields,
  options: Options,
): Effect.fn.Return<CertificateFiles, never> {
  let root = config
  const certificates: Array<Certificate> = []
  const errors: Array<Finding> = []
  const faults: Array<Fault> = []
  const warnings: Array<Finding> = []
  const absent: Array<Finding> = []

  const readPlace = Effect.fnUntraced(function* ({ path: place, names }: Place) {
    const into = (finding: Finding) => (place[0] === "tls" ? errors.push(finding) : faults.push({ finding }))
    let certificate: string | undefined
    for (const role of roles) {
      const name = names[role]
      const path = [...place, role]
      if (typeof name !== "string" || name === "" || options.isUnknown(path)) continue
      const content = yield* Effect.result(
        isPem(name)
          ? Effect.succeed(name)
          : Effect.map(options.readFile(name, largest.certificates), (bytes) => decodeText(bytes) ?? ""),
      )
      if (Result.isFailure(content)) {
        const finding = unreadable(role, name, path, content.failure)
        if (options.mayLack === true && mayBeElsewhere(content.failure)) absent.push(finding)
        else into(finding)
        continue
      }
      const pem = content.success
      const problem = role === "key" ? keyProblem(pem, certificate) : check(pem, path)
      if (problem !== undefined) {
        into(error(path, problem.message, problem.hint))
        continue
      }
      if (role === "certificate") certificate = pem
      // A journal reads its files itself for each connection.
      if (place[0] !== "journal") root = replaced(root, path, pem)
    }
  })

  const check = (pem: string, path: Path): Problem | undefined => {
    const parsed = parse(pem, formatPath(path), path.at(-1) === "ca")
    if (Result.isFailure(parsed)) return parsed.failure
    const { fingerprint } = parsed.success
    const fault = ({ message, hint }: Problem) => faults.push({ finding: error(path, message, hint), fingerprint })
    const time = timeProblem(parsed.success, options.now)
    if (time !== undefined) fault(time)
    // The peer that verifies a sink's certificate may have its intermediates.
    const chain = path[0] === "tls" ? chainProblem(pem) : undefined
    if (chain?.isSure === true) fault(chain)
    else if (chain !== undefined) warnings.push(warning(path, chain.message, chain.hint))
    certificates.push({ ...parsed.success, ...(chain && { chain }) })
    return undefined
  }

  for (const place of placesOf(config, options)) yield* readPlace(place)
  return { root, certificates, errors, faults, warnings, absent }
})
