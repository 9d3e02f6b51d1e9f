/** The relay doesn't load the parts of the Kafka client that it never uses. */
import { expect, test } from "bun:test"

const root = new URL("../../..", import.meta.url).pathname

test("loads neither Avro nor the compiler of the client's own schemas", () => {
  const script = `await import("./src/sinks/kafka/Platformatic.ts"); console.log(Object.keys(require.cache).join("\\n"))`
  const { stdout } = Bun.spawnSync([process.execPath, "-e", script], { cwd: root })
  const loaded = stdout.toString().split("\n")
  expect(loaded).toContainEqual(expect.stringContaining("src/sinks/kafka/NoSchemas.ts"))
  expect(loaded.filter((path) => /node_modules\/(avsc|ajv-draft-04)\/|\/ajv\/dist\/2020/.test(path))).toEqual([])
})
