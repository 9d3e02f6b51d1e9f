/** Which parts of a release are made: all that this machine can make, or those of `--only`. */
import { parseArgs } from "node:util"
import * as DebianBase from "./DebianBase.ts"
import * as LinuxPackages from "./LinuxPackages.ts"

export const parts = ["tarballs", "deb", "rpm", "npm", "image", "sbom"] as const
export type Part = (typeof parts)[number]

/** Why a part can't be made here; `undefined` where it can. */
export const lackingHere = (part: Part): string | undefined => {
  if (part === "deb" || part === "rpm") return LinuxPackages.reasonToSkip()
  return part === "image" ? DebianBase.reasonToSkip() : undefined
}

export interface Plan {
  readonly made: ReadonlyArray<Part>
  readonly skipped: ReadonlyArray<{ readonly part: Part; readonly why: string }>
}

const isPart = (word: string): word is Part => parts.some((part) => part === word)

const askedFor = (args: ReadonlyArray<string>): ReadonlyArray<Part> => {
  const { only } = parseArgs({ args: [...args], options: { only: { type: "string", multiple: true } } }).values
  const words = (only ?? []).flatMap((word) => word.split(","))
  const unknown = words.find((word) => !isPart(word))
  if (unknown !== undefined) throw new Error(`there is no part ${unknown}; the parts are: ${parts.join(", ")}`)
  return only === undefined ? parts : parts.filter((part) => words.includes(part))
}

/** Throws where `--only` names what there is not, or what can't be made here. */
export const planOf = (args: ReadonlyArray<string>, lacking: typeof lackingHere = lackingHere): Plan => {
  const asked = askedFor(args)
  const skipped = asked.flatMap((part) => {
    const why = lacking(part)
    return why === undefined ? [] : [{ part, why }]
  })
  const made = asked.filter((part) => !skipped.some((one) => one.part === part))
  if (made.length > 0) return { made, skipped }
  throw new Error(`nothing can be made here: ${skipped.map(({ part, why }) => `${part}: ${why}`).join("; ")}`)
}
