import { describe, expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { configsIn } from "../configs.ts"
import { cli, temporary } from "../harness.ts"

const directory = temporary()
const _config = configsIn(directory)

describe("init", () => {
  test("writes a config that validates, and never over another", async () => {
    const file = join(directory, "new.json")
    expect((await cli(["init", "-c", file])).code).toBe(0)
    const [, schema = ""] = /"\$schema": "(.*)"/.exec(readFileSync(file, "utf8")) ?? []
    expect(readFileSync(join(directory, schema), "utf8")).toBe((await cli(["schema"])).stdout)
    expect((await cli(["validate", "--offline", "-c", file])).code).toBe(0)
    expect((await cli(["test", "-c", file])).code).toBe(0)
    writeFileSync(file, "{}")
    const again = await cli(["init", "-c", file])
    expect([again.code, readFileSync(file, "utf8")]).toEqual([74, "{}"])
  })
})
