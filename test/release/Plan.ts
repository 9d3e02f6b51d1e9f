/** The parts of a release: all that this machine can make, or the parts of `--only` for the targets of `--target`. */
import { parseArgs } from "node:util"
import * as DebianBase from "./DebianBase.ts"
import * as LinuxPackages from "./LinuxPackages.ts"
import { type Target, targets } from "./Targets.ts"

export const parts = ["tarballs", "deb", "rpm", "npm", "image", "sbom"] as const
export type Part = (typeof parts)[number]

/** Why a part can't be made here, or `undefined` if it can. */
export const lackingHere = (part: Part): string | undefined => {
  if (part === "deb" || part === "rpm") return LinuxPackages.reasonToSkip()
  return part === "image" ? DebianBase.reasonToSkip() : undefined
}

export interface Plan {
  readonly made: ReadonlyArray<Part>
  readonly skipped: ReadonlyArray<{ readonly part: Part; readonly why: string }>
  readonly targets: ReadonlyArray<Target>
  /** The file of the signing key. Without it nothing is signed, and nothing may be published. */
  readonly key?: string
}

const several = (given: ReadonlyArray<string> | undefined): ReadonlyArray<string> =>
  (given ?? []).flatMap((word) => word.split(","))

const oneOf = (what: string, known: ReadonlyArray<string>, words: ReadonlyArray<string>): void => {
  const unknown = words.find((word) => !known.includes(word))
  if (unknown !== undefined) throw new Error(`there is no ${what} ${unknown}; the ${what}s are: ${known.join(", ")}`)
}

const options = {
  only: { type: "string", multiple: true },
  target: { type: "string", multiple: true },
  sign: { type: "string" },
} as const

/** Throws if the arguments name an unknown part or target, or a part that can't be made here. */
export const planOf = (args: ReadonlyArray<string>, lacking: typeof lackingHere = lackingHere): Plan => {
  const { only, target, sign } = parseArgs({ args: [...args], options }).values
  const [words, names] = [several(only), several(target)]
  oneOf("part", parts, words)
  oneOf(
    "target",
    targets.map(({ name }) => name),
    names,
  )
  const asked = only === undefined ? parts : parts.filter((part) => words.includes(part))
  const skipped = asked.flatMap((part) => {
    const why = lacking(part)
    return why === undefined ? [] : [{ part, why }]
  })
  const made = asked.filter((part) => !skipped.some((one) => one.part === part))
  if (made.length === 0)
    throw new Error(`nothing can be made here: ${skipped.map(({ part, why }) => `${part}: ${why}`).join("; ")}`)
  return {
    made,
    skipped,
    targets: target === undefined ? targets : targets.filter(({ name }) => names.includes(name)),
    ...(sign !== undefined && { key: sign }),
  }
}
