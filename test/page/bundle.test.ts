import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { bundle } from "./bundle.ts"

test("the served bundle is built from the page's source; if not: bun test/page/bundle.ts", async () => {
  for (const [path, text] of Object.entries(await bundle())) expect(readFileSync(path, "utf8") === text).toBe(true)
})
