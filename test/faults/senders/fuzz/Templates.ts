/** Templates with hostile values: each place gets only output that it can hold. */
import * as Template from "../../../../src/formats/Template.ts"
import { bytes, entry, envelope } from "../../../sinks/samples.ts"
import type { Found, Fuzz, Random } from "./Random.ts"

const names = ["type", "resource", "id", "account_id", "webhook", "created_at", "received_at", "date", "hour"]
const pointers = [
  "/data/object/id",
  "/id",
  "/data",
  "/nowhere",
  "/data/object/list/0",
  "/__proto__",
  "/constructor/name",
]

const placeholder = (random: Random): string =>
  `{{${random.pick(["", " "])}${random.pick([...names, ...pointers])}${random.pick(["", " "])}}}`

const template = (random: Random): string => {
  if (random.chance(0.2)) return random.trouble(8)
  return random.some(4, () => (random.chance(0.6) ? placeholder(random) : random.pick(["a", "-", ".", " b"]))).join("")
}

const hostile = (random: Random) => {
  const object = { id: random.pick([random.trouble(6), random.below(9), null, [1], {}]), list: [random.trouble(3)] }
  const facts = { id: random.trouble(4), type: random.trouble(4), accountId: random.trouble(4) }
  const body = random.chance(0.1) ? bytes(random.trouble(9)) : bytes(JSON.stringify(envelope(1, object)))
  return entry(1, { ...facts, body })
}

/** Rules for each place's output, stated without the template's own code. */
const holds: Readonly<Record<Exclude<Template.Place, "text" | "key">, (text: string) => boolean>> = {
  json: (text) => {
    try {
      return typeof JSON.parse(`"${text}"`) === "string"
    } catch {
      return false
    }
  },
  header: (text) => [...text].every((one) => one >= " " && one <= "~") && new Headers({ x: text }).has("x"),
  topic: (text) => /^[A-Za-z0-9._-]*$/.test(text),
  url: (text) => {
    const [path, query] = [new URL(`http://h/a/${text}/z`), new URL(`http://h/?q=${text}&z=1`)]
    const stays = path.host === "h" && path.pathname.split("/").length === 4 && path.search + path.hash === ""
    return stays && path.pathname.endsWith("/z") && query.searchParams.get("z") === "1" && query.searchParams.size === 2
  },
}

/** An author's own text may contain anything, so these contain only values. */
const ofValues = (random: Random): string => random.some(3, () => placeholder(random)).join("-") || "{{id}}"

const round = (random: Random): Found => {
  const text = template(random)
  const wrong = Template.problem(text)
  const event = hostile(random)
  // Rendering succeeds for any text. The config refuses wrong templates, and nothing must depend on that.
  Template.compile(text).render(event)
  const side = wrong === undefined ? "a template" : "wrong text"
  const values = ofValues(random)
  for (const [place, fits] of Object.entries(holds)) {
    const rendered = Template.compile(values, place as Template.Place).render(event)
    if (!fits(rendered)) return { side, wrong: `${values} as ${place}: ${JSON.stringify(rendered)}` }
  }
  const body = { [random.trouble(2)]: text, __proto__: values, list: [values, { deep: text }] }
  JSON.parse(Template.compileBody(body).render(event))
  return { side }
}

export const Templates: Fuzz = {
  name: "fuzz-templates",
  fault: "random templates and hostile values",
  sides: ["a template", "wrong text"],
  open: async () => round,
}
