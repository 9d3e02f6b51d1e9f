/** The recipes, functions and limits on the page about expressions match the code. */
import { beforeAll, describe, expect, test } from "bun:test"
import { Effect } from "effect"
import * as Numbers from "../../src/event/Numbers.ts"
import * as SampleEvent from "../../src/event/SampleEvent.ts"
import { limits } from "../../src/formats/jmespath/Budget.ts"
import { names } from "../../src/formats/jmespath/Functions.ts"
import * as Jmespath from "../../src/formats/jmespath/Jmespath.ts"
import * as Template from "../../src/formats/Template.ts"
import { readPage } from "../lib/docs.ts"
import { bytes, entry } from "../sinks/samples.ts"

const page = readPage("docs/reference/jmespath.md")
const recipes = page
  .slice(page.indexOf("## Recipes"))
  .split(/^### /m)
  .slice(1)
  .map((text) => ({
    name: text.slice(0, text.indexOf("\n")),
    type: /With an? `([a-z_.]+)`/.exec(text)?.[1] ?? "",
    blocks: [...text.matchAll(/^```(?:jmespath|json)\n(.*?)\n```$/gms)].map(([, block = ""]) => block),
  }))

const at = Date.UTC(2026, 0, 15, 12)

describe("the page on expressions", () => {
  beforeAll(() => Effect.runPromise(Jmespath.load))

  test("has ten recipes or more", () => {
    expect(recipes.length).toBeGreaterThanOrEqual(10)
  })

  for (const { name, type, blocks } of recipes) {
    test(`has a recipe that works as described: ${name}`, () => {
      const [jmespath = "", ...json] = blocks
      expect(Jmespath.problem(jmespath, Template.variableNames(true))).toBeUndefined()
      const [object, result = object] = json
      const envelope = SampleEvent.sample(type, at, { isFixed: true })
      const data = { type, object: json.length > 1 ? Numbers.parse(object ?? "") : envelope.data.object }
      const body = bytes(JSON.stringify({ ...envelope, data }))
      const event = entry(1, { id: envelope.id, type, receivedAt: at, body })
      const written = JSON.stringify(Numbers.parse(result ?? ""))
      expect(Template.compileBody({ jmespath }).render(event)).toBe(written)
    })
  }

  test("lists all functions", () => {
    const listed = page.slice(page.indexOf("<!-- functions -->"), page.indexOf("<!-- /functions -->"))
    expect([...listed.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name)).toEqual([...names])
  })

  test("lists all variables", () => {
    for (const name of Template.variableNames(true)) expect(page).toContain(`\`$${name}\``)
  })

  test("states the limits", () => {
    for (const limit of Object.values(limits)) expect(page).toContain(`| ${limit.toLocaleString("en")}`)
  })
})
