import { describe, expect, test } from "bun:test"
import { configsIn } from "../configs.ts"
import { cli, temporary } from "../harness.ts"

const directory = temporary()
const _config = configsIn(directory)

describe("schema", () => {
  test("prints only the JSON Schema", async () => {
    const { code, stdout } = await cli(["schema"])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ $schema: expect.stringContaining("json-schema.org") })
  })
})
