/** Files of the fuzzing: the inputs that found something, and the figures of the last runs. */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../lib/programs.ts"
import type { Input } from "./Mutations.ts"

/** An input that once broke a target. It has `text` if it is UTF-8. */
export interface Kept {
  readonly target: string
  /** The finding. */
  readonly what: string
  readonly text?: string
  readonly base64?: string
}

const foundFile = join(import.meta.dir, "found.json")

export const readFound = (): ReadonlyArray<Kept> => JSON.parse(readFileSync(foundFile, "utf8"))

export const inputOf = ({ text, base64 = "" }: Kept): Input =>
  text === undefined ? Buffer.from(base64, "base64") : Buffer.from(text)

/** Keeps an input, unless it is kept already. */
export const keep = (target: string, what: string, base64: string): void => {
  const bytes = Buffer.from(base64, "base64")
  const text = bytes.toString("utf8")
  const isText = Buffer.from(text).equals(bytes)
  const all = readFound()
  if (all.some((one) => one.target === target && bytes.equals(inputOf(one)))) return
  const kept: Kept = { target, what, ...(isText ? { text } : { base64 }) }
  writeFileSync(foundFile, `${JSON.stringify([...all, kept], null, 2)}\n`)
}

/** The figures of a target's last run. */
export interface Figures {
  /** The statement that was checked. */
  readonly holds: string
  readonly seed: number
  readonly minutes: number
  readonly executions: number
  /** Inputs that reached something new. */
  readonly inputs: number
  /** Branches of the sources that an input reached. */
  readonly reached: number
  /** Inputs that broke the statement, in all runs. */
  readonly found: number
  readonly day: string
  /** The last commit that changed the sources. */
  readonly commit: string
}

export type Evidence = Readonly<Record<string, Figures>>

const evidenceFile = join(root, "docs/evidence/fuzz.json")

const readEvidence = (): Evidence => (existsSync(evidenceFile) ? JSON.parse(readFileSync(evidenceFile, "utf8")) : {})

/** Replaces the figures of a target. `names` are all targets in their order. */
export const writeFigures = (names: ReadonlyArray<string>, name: string, figures: Figures): void => {
  const all = { ...readEvidence(), [name]: figures }
  const ordered = names.flatMap((one) => (all[one] === undefined ? [] : [[one, all[one]] as const]))
  writeFileSync(evidenceFile, `${JSON.stringify(Object.fromEntries(ordered), null, 2)}\n`)
}
