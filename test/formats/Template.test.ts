import { beforeAll, describe, expect, test } from "bun:test"
import { Effect } from "effect"
import * as Numbers from "../../src/event/Numbers.ts"
import * as Jmespath from "../../src/formats/jmespath/Jmespath.ts"
import * as Rendering from "../../src/formats/Rendering.ts"
import * as Template from "../../src/formats/Template.ts"
import { seeded } from "../lib/seeded.ts"
import { bytes, entry, envelope } from "../sinks/samples.ts"

beforeAll(() => Effect.runPromise(Jmespath.load))

const holding = (object: unknown) => entry(1, { body: bytes(JSON.stringify(envelope(1, object))) })
const render = (text: string, place: Template.Place = "text", object: unknown = { id: "apt_1" }) =>
  Template.compile(text, place).render(holding(object))

test("an event of another sender has its body in data.object, and the facts in the envelope", () => {
  const foreign = { createdAt: "2026-01-01T00:00:00.000Z", headers: {} }
  const paid = entry(1, { type: "invoice.paid", foreign, body: bytes('{"total":12345678901234567890,"data":{"a":1}}') })
  const { render } = Template.compile(
    "{{id}} {{type}} {{account_id}} {{created_at}} {{/data/object/total}} {{/data/object/data/a}}",
    "text",
  )
  expect(render(paid)).toBe("evt_1 invoice.paid acct_1 2026-01-01T00:00:00.000Z 12345678901234567890 1")
})

/** Seeded text of every kind that causes trouble in some format. */
const trouble = (random: () => number): string => {
  const pieces = [
    "a",
    "Z",
    "0",
    "/",
    "..",
    ".",
    "?",
    "#",
    "&",
    "=",
    "%",
    "%2e",
    " ",
    "\r\n",
    "\0",
    "\t",
    '"',
    "\\",
    "{{type}}",
    "é",
    "☃",
    "😀",
    "\ud800",
    "\u2028",
    ":",
    "@",
    ";",
    ",",
  ]
  return Array.from({ length: Math.floor(random() * 8) }, () => pieces[Math.floor(random() * pieces.length)]).join("")
}

const troubles = (count: number): ReadonlyArray<string> => {
  const random = seeded(20_261_121)
  return Array.from({ length: count }, () => trouble(random))
}

describe("a template", () => {
  test("knows an event's facts by name", () => {
    expect(render("{{type}} {{resource}} {{id}} {{account_id}} {{webhook}} {{created_at}} {{received_at}}")).toBe(
      "appointment.created appointment evt_1 acct_1 scheduling 2026-11-21T08:00:00Z 2026-11-21T08:00:01.000Z",
    )
  })

  test("reaches into the envelope by JSON Pointer, with or without spaces in the braces", () => {
    expect(render("{{/data/object/id}} {{ /data/object/id }}")).toBe("apt_1 apt_1")
    expect(render("{{/data/object/a~1b/0}}", "text", { "a/b": ["x"] })).toBe("x")
  })

  test("renders a missing or null value as nothing, and a value that isn't text as JSON", () => {
    const object = { none: null, list: [1, "a"], yes: true, n: 1.5 }
    expect(render("[{{/data/object/none}}{{/nowhere}}{{/constructor}}]", "text", object)).toBe("[]")
    expect(render("{{/data/object/list}} {{/data/object/yes}} {{/data/object/n}}", "text", object)).toBe(
      '[1,"a"] true 1.5',
    )
  })

  test("never fills in placeholders inside a value", () => {
    expect(render("{{/data/object/id}}", "text", { id: "{{type}}" })).toBe("{{type}}")
  })

  test("renders an event without an envelope: its facts are empty", () => {
    const broken = entry(1, { id: "", type: "", accountId: "", body: Uint8Array.of(0xff) })
    expect(Template.compile("{{type}}/{{/data/object/id}}/{{webhook}}").render(broken)).toBe("//scheduling")
  })

  test("without a pointer never reads the body", () => {
    const sealed = entry(1)
    const event = Object.defineProperty({ ...sealed.event }, "body", {
      get: () => {
        throw new Error("the body was read")
      },
    })
    const text = "{{type}} {{resource}} {{id}} {{account_id}} {{webhook}} {{received_at}}"
    expect(Template.compile(text).render({ ...sealed, event })).toContain("evt_1")
    expect(() => Template.compile("{{/id}}").render({ ...sealed, event })).toThrow("the body was read")
  })

  test("reads a body once, however many places want it", () => {
    const sealed = entry(1)
    let reads = 0
    const event = Object.defineProperty({ ...sealed.event }, "body", {
      get: () => {
        reads += 1
        return sealed.event.body
      },
    })
    const body = { a: "{{/id}}", b: ["{{/id}}", { c: "x {{/account_id}} {{created_at}}" }] }
    Template.compileBody(body).render({ ...sealed, event })
    expect(reads).toBe(1)
  })
})

describe("a value in a URL", () => {
  test("stays in its segment, whatever it is", () => {
    for (const value of troubles(2_000)) {
      const url = new URL(
        render("http://example.com/a/{{/data/object/id}}/z?q={{/data/object/id}}", "url", { id: value }),
      )
      expect(url.origin).toBe("http://example.com")
      expect(url.pathname.split("/")).toHaveLength(4)
      expect([...url.searchParams.keys()]).toEqual(["q"])
      expect(url.hash).toBe("")
    }
  })

  test("is the same again when it is decoded", () => {
    for (const value of troubles(500)) {
      if (/^\.+$/.test(value)) continue
      const url = new URL(render("http://example.com/?q={{/data/object/id}}", "url", { id: value }))
      expect(url.searchParams.get("q")).toBe(value.toWellFormed())
    }
  })

  test("can't climb out of its path", () => {
    expect(render("http://example.com/a/{{/data/object/id}}", "url", { id: ".." })).toBe("http://example.com/a/__")
  })
})

test("a value in a header is visible ASCII, and starts no header of its own", () => {
  for (const value of troubles(1_000)) {
    const header = render("v={{/data/object/id}}", "header", { id: value })
    expect(header).toMatch(/^[\x20-\x7e]*$/)
    expect(new Headers({ x: header }).get("x")).toBe(header.trim())
  }
})

test("values that differ only in characters that a header can't hold differ in a header too", () => {
  const headers = ["\u00fc", "\u00f6", "\n", "\0", " ", "\u{1f600}"].map((id) =>
    render("{{/data/object/id}}", "header", { id }),
  )
  expect(new Set(headers).size).toBe(headers.length)
})

test("a value in a topic becomes legal for a topic", () => {
  for (const value of troubles(500)) {
    expect(render("t.{{/data/object/id}}", "topic", { id: value })).toMatch(/^[A-Za-z0-9._-]+$/)
  }
})

test("a value inside a JSON string is that value again when it is parsed", () => {
  for (const value of troubles(500)) {
    expect(JSON.parse(`"${render("{{/data/object/id}}", "json", { id: value })}"`)).toBe(value)
  }
})

describe("a body", () => {
  const body = (value: unknown, object: unknown) => JSON.parse(Template.compileBody(value).render(holding(object)))

  test("keeps the JSON type of a value that is alone, and makes text of a value within text", () => {
    const object = { n: 1, list: [true, null], deep: { a: "b" } }
    expect(
      body({ n: "{{/data/object/n}}", list: "{{/data/object/list}}", deep: "{{/data/object/deep}}" }, object),
    ).toEqual(object)
    expect(body(["n is {{/data/object/n}}", "{{/nowhere}}", 5, null, true, { a: [] }], object)).toEqual([
      "n is 1",
      null,
      5,
      null,
      true,
      { a: [] },
    ])
  })

  test("is JSON for any values", () => {
    for (const value of troubles(500)) {
      expect(
        body({ text: "x{{/data/object/id}}", __proto__: null, whole: "{{/data/object/id}}" }, { id: value }),
      ).toEqual({ text: `x${value}`, whole: value })
    }
  })
})

describe("a number that no double holds", () => {
  const object = `{"id":9007199254740993,"all":[-9007199254740993,1e400,1.5],"small":12}`
  const text = JSON.stringify(envelope(1, "here")).replace('"here"', object)
  const event = entry(1, { body: bytes(text) })

  test("keeps its digits, by itself, in text and within a larger value", () => {
    const body = Template.compileBody({
      id: "{{/data/object/id}}",
      text: "n {{/data/object/id}}",
      all: "{{/data/object/all}}",
    })
    expect(body.render(event)).toBe(
      '{"id":9007199254740993,"text":"n 9007199254740993","all":[-9007199254740993,1e400,1.5]}',
    )
    expect(Template.compile("{{/data/object/id}}/{{/data/object/small}}", "url").render(event)).toBe(
      "9007199254740993/12",
    )
  })

  test("is the same key however it is written, and elsewhere stays as it is written", () => {
    const keyOf = (number: string, key: Template.Text) =>
      Template.compile(key, "key").render(entry(1, { body: bytes(text.replace("9007199254740993", number)) }))
    for (const number of ["9007199254740993", "9007199254740993.0", "9.007199254740993e15"]) {
      expect(keyOf(number, "{{/data/object/id}}")).toBe("9007199254740993")
      expect(keyOf(number, { jmespath: "data.object.id" })).toBe("9007199254740993")
      const body = Template.compileBody({ id: "{{/data/object/id}}", own: Numbers.of(number) })
      expect(body.render(entry(1, { body: bytes(text.replace("9007199254740993", number)) }))).toBe(
        `{"id":${number},"own":${number}}`,
      )
    }
    expect(keyOf("9007199254740992", "{{/data/object/id}}")).toBe("9007199254740992")
  })

  test("is rounded if the rest is nested too deep to read each number, and the rest is complete", () => {
    const deep = `${"[".repeat(150_000)}${"]".repeat(150_000)}`
    const event = entry(1, { body: bytes(text.replace('"small":12', `"small":12,"deep":${deep}`)) })
    expect(Template.compile("{{/data/object/small}}").render(event)).toBe("12")
  })
})

describe("what is wrong with a template", () => {
  test("is described with the invalid placeholder", () => {
    expect(Template.problem("{{type}} {{/a/b}}")).toBeUndefined()
    expect(Template.problem("{{acount_id}}")).toContain("{{acount_id}} is no placeholder")
    expect(Template.problem("{{constructor}}")).toContain("is no placeholder")
    expect(Template.problem("{{/a~2}}")).toContain("is no placeholder")
    expect(Template.problem("{{}}")).toContain("is no placeholder")
  })

  test("is described for unmatched braces", () => {
    for (const text of ["{{type", "type}}", "{{type}} {{", "{{{{type}}"]) expect(Template.problem(text)).toBeDefined()
  })
})

describe("what is nested too deep to be written", () => {
  const nested = (levels: number) =>
    entry(1, {
      body: bytes(
        JSON.stringify(envelope(1, { id: "apt_1", list: "LIST" })).replace(
          '"LIST"',
          `${"[".repeat(levels)}${"]".repeat(levels)}`,
        ),
      ),
    })
  const attempt = (levels: number, pointer: string) =>
    Rendering.attempt(() => Template.compile(`of {{${pointer}}}`).render(nested(levels)))

  test("is rendered up to a thousand levels; beyond these, an error names its place", () => {
    expect(attempt(1_000, "/data/object/list")).toMatchObject({
      _tag: "Success",
      success: expect.stringMatching(/^of \[{1000}\]{1000}$/),
    })
    for (const levels of [1_001, 100_000]) {
      expect(attempt(levels, "/data/object/list")).toMatchObject({
        _tag: "Failure",
        failure: {
          message: "can't be rendered: what stands at /data/object/list is nested more than 1000 levels deep",
        },
      })
    }
  })

  test("affects no template that needs other fields of the event", () => {
    expect(attempt(100_000, "/data/object/id")).toMatchObject({ _tag: "Success", success: "of apt_1" })
  })

  test("is shown as it is written", () => {
    const { body } = nested(100_000).event
    expect(Rendering.displayBytes(body)).toBe(Buffer.from(body).toString())
  })

  test("leaves a bug a bug", () => {
    expect(() => Rendering.attempt(() => JSON.parse("{"))).toThrow(SyntaxError)
  })
})
