/** The credentials of the packaged service, as its unit names them: `systemctl` shows them, and this reads its files. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

/** The directories of units (systemd.unit(5)). The first one that has a unit counts. */
const directories = [
  "/etc/systemd/system",
  "/run/systemd/system",
  "/usr/local/lib/systemd/system",
  "/usr/lib/systemd/system",
  "/lib/systemd/system",
]

const textOf = (path: string): string | undefined => {
  try {
    return readFileSync(path, "utf8")
  } catch {
    return undefined
  }
}

const namesIn = (directory: string): ReadonlyArray<string> => {
  try {
    return readdirSync(directory).filter((name) => name.endsWith(".conf"))
  } catch {
    return []
  }
}

/** The texts of a unit and its drop-ins, in the order in which they count; empty without the unit. */
const textsOf = (unit: string, roots: ReadonlyArray<string>): ReadonlyArray<string> => {
  const own = roots.map((root) => textOf(join(root, unit))).find((text) => text !== undefined)
  if (own === undefined) return []
  const dropIns = new Map<string, string>()
  for (const root of roots.toReversed()) {
    for (const name of namesIn(join(root, `${unit}.d`))) dropIns.set(name, join(root, `${unit}.d`, name))
  }
  const sorted = [...dropIns].toSorted(([one], [other]) => (one < other ? -1 : 1))
  return [own, ...sorted.map(([, path]) => textOf(path) ?? "")]
}

/**
 * The file of each credential, by its name. `undefined` if there is no such unit, or if it gets credentials in a way
 * that only systemd can follow.
 */
export const of = (unit = "relay.service", roots = directories): ReadonlyMap<string, string> | undefined => {
  const texts = textsOf(unit, roots)
  if (texts.length === 0) return undefined
  const files = new Map<string, string>()
  for (const [, kind, value = ""] of texts
    .join("\n")
    .matchAll(/^[ \t]*((?:Load|Set|Import)Credential(?:Encrypted)?)[ \t]*=[ \t]*(.*?)[ \t]*$/gm)) {
    if (kind !== "LoadCredential") return undefined
    const [, name = "", path = ""] = /^([^:]+):(\/.+)$/.exec(value) ?? []
    // An empty value forgets those before it.
    if (value === "") files.clear()
    else if (name === "") return undefined
    else files.set(name, path)
  }
  return files
}
