/**
 * The catalogues of reports, each a module here and a page beside it.
 *
 * After a change of a report or a test's title: bun test/reports/table.ts
 */
import { existsSync, writeFileSync } from "node:fs"
import { type Catalogue, markdown } from "./Report.ts"

const names = ["config", "receive", "sinks"].filter((name) => existsSync(new URL(`./${name}.ts`, import.meta.url)))

export const catalogues: ReadonlyArray<readonly [page: URL, Catalogue]> = await Promise.all(
  names.map(async (name) => {
    const { catalogue }: { readonly catalogue: Catalogue } = await import(`./${name}.ts`)
    return [new URL(`./${name}.md`, import.meta.url), catalogue] as const
  }),
)

if (import.meta.main) for (const [page, catalogue] of catalogues) writeFileSync(page, markdown(catalogue))
