/** The version of a tree, from `package.json`, and the time of its release, from the top of CHANGELOG.md. */
import { readFileSync } from "node:fs"
import { join } from "node:path"

export interface Version {
  readonly version: string
  /**
   * The time of every file in the release, in epoch seconds, so that the same source gives the same bytes. It is
   * SOURCE_DATE_EPOCH, or else the day of the changelog's top entry.
   */
  readonly time: number
}

/** The entries of the changelog, such as `## 1.2.3 (2026-11-22)`, in its order. */
export const entries = (changelog: string): ReadonlyArray<{ readonly version: string; readonly day: string }> =>
  [...changelog.matchAll(/^## (\S+) \((\d{4}-\d\d-\d\d)\)$/gm)].map(([, version = "", day = ""]) => ({ version, day }))

export const versionOf = (root: string): Version => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  const [top] = entries(readFileSync(join(root, "CHANGELOG.md"), "utf8"))
  if (top?.version !== version)
    throw new Error(`package.json says ${version}; the top entry of CHANGELOG.md must be "## ${version} (YYYY-MM-DD)"`)
  const epoch = process.env.SOURCE_DATE_EPOCH
  return { version, time: epoch === undefined ? Date.parse(`${top?.day}T00:00:00Z`) / 1000 : Number(epoch) }
}
