/**
 * The page's script and style as the relay serves them, built from src/page/browser.
 *
 * They are committed, because the relay also runs from its source under Bun and Deno, without a build. A test fails
 * when they are outdated.
 *
 * After a change of the page: bun test/page/bundle.ts
 */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../lib/programs.ts"

const browser = join(root, "src/page/browser")

const built = async (entry: string): Promise<string> => {
  const { outputs } = await Bun.build({
    entrypoints: [join(browser, entry)],
    target: "browser",
    minify: true,
    define: { "process.env.NODE_ENV": '"production"' },
  })
  const [output] = outputs
  if (output === undefined) throw new Error(`${entry} was not built`)
  return `${(await output.text()).trim()}\n`
}

/** By path. */
export const bundle = async (): Promise<Readonly<Record<string, string>>> => ({
  [join(root, "src/page/built/page.js.txt")]: await built("App.tsx"),
  [join(root, "src/page/built/page.css.txt")]: await built("page.css"),
})

if (import.meta.main) {
  for (const [path, text] of Object.entries(await bundle())) writeFileSync(path, text)
}
