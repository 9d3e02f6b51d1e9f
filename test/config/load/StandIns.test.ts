import { describe, expect } from "bun:test"
import { Effect, Result } from "effect"
import { parse } from "jsonc-parser"
import { formatPath } from "../../../src/config/diagnostics/Source.ts"
import type { Path } from "../../../src/config/Fields.ts"
import { load } from "../../../src/config/load/Load.ts"
import { sinkTypes } from "../../../src/sinks/SinkTypes.ts"
import { exampleConfigs, readPage } from "../../lib/docs.ts"
import { it } from "../../lib/effect.ts"
import { sample } from "../../lib/tries.ts"
import { config, journalTypes, options, readFile } from "../fixture.ts"

/** Every text of a config, with the config in which a variable that is not set takes its place. */
const lacking = (root: unknown): ReadonlyArray<readonly [path: Path, text: string]> => {
  const found: Array<readonly [Path, string]> = []
  const walk = (node: unknown, path: Path, whole: (node: unknown) => unknown): void => {
    if (typeof node === "string") found.push([path, JSON.stringify(whole("${ABSENT}"))])
    if (typeof node !== "object" || node === null) return
    for (const [key, value] of Object.entries(node)) {
      const inside = (value: unknown) =>
        Array.isArray(node) ? node.with(Number(key), value) : { ...node, [key]: value }
      walk(value, [...path, Array.isArray(node) ? Number(key) : key], (value) => whole(inside(value)))
    }
  }
  walk(root, [], (node) => node)
  // These keys must be literal. A test names the config's sinks, and the format and the journal's type decide which
  // keys there are.
  const decides = (path: Path) => path.at(-1) === "format" || formatPath(path) === "journal.type"
  return found.filter(([path]) => !["$schema", "tests"].includes(String(path[0])) && !decides(path))
}

const loadLacking = (text: string, files = {}, mayLack = true) =>
  load("x.json", {
    sinkTypes,
    journalTypes,
    env: {},
    readFile: readFile({ ...files, "x.json": text }),
    mayLack,
  })

describe("a config without its variables and files", () => {
  it.effect("loads whichever text is absent, and names its key; to run it, that is the only error", function* () {
    const all = exampleConfigs.flatMap((name) =>
      lacking(parse(readPage(name), [], { allowTrailingComma: true })).map((one) => [name, one] as const),
    )
    expect(all.length).toBeGreaterThan(200)
    for (const [name, [path, text]] of sample(all)) {
      const loaded = yield* Effect.result(loadLacking(text))
      const at = `${name}: ${formatPath(path)}`
      expect([at, Result.isFailure(loaded) ? loaded.failure.message : "loads"]).toEqual([at, "loads"])
      if (Result.isFailure(loaded)) continue
      const absent = loaded.success.absent.map(({ key }) => key)
      expect(absent).toContain(formatPath(path))
      const { diagnostics } = yield* Effect.flip(loadLacking(text, {}, false))
      const errors = diagnostics.filter(({ severity }) => severity === "error").map(({ key }) => key)
      expect([at, errors.toSorted()]).toEqual([at, absent.toSorted()])
    }
  })

  it.effect("is not run: an absent value is an error unless a check asks for less", function* () {
    const text = config({ admin: { token: "${TOKEN}" } })
    const { diagnostics } = yield* Effect.flip(load("x", options({ x: text })))
    expect(diagnostics.map(({ key }) => key)).toEqual(["admin.token"])
    const { absent } = yield* load("x", { ...options({ x: text }), mayLack: true })
    expect(absent.map(({ key, message }) => [key, message])).toEqual([["admin.token", "the variable TOKEN is not set"]])
  })

  it.effect("has its other mistakes reported, and values that no replacement could fix", function* () {
    const wrong = config({ admin: { token: "${TOKEN}" }, lisen: 1, delivery: { pauseAfter: "${MANY}" } })
    const { diagnostics } = yield* Effect.flip(loadLacking(wrong))
    expect(diagnostics.map(({ key }) => key)).toEqual(["lisen", "delivery.pauseAfter"])
  })

  it.effect("reports a file that can't be text, an empty variable and a wrong reference", function* () {
    const secrets = ["file:folder", "file:bytes", "${EMPTY}", "${A b}", "file:nothing"]
    const named = secrets.map((value, index) => ({ name: `${index}`, value }))
    const { diagnostics } = yield* load("x", {
      ...options(
        {
          x: config({ webhooks: { w: { path: "/w", secrets: named } } }),
          folder: "directory",
          bytes: new Uint8Array([0xff]),
        },
        { EMPTY: "" },
      ),
      mayLack: true,
    }).pipe(Effect.flip)
    expect(diagnostics.map(({ key }) => key)).toEqual([0, 1, 2, 3].map((index) => `webhooks.w.secrets[${index}].value`))
  })
})
