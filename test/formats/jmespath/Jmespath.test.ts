import { beforeAll, describe, expect, test } from "bun:test"
import { search } from "@jmespath-community/jmespath"
import { Effect, Result } from "effect"
import * as Numbers from "../../../src/event/Numbers.ts"
import { limits } from "../../../src/formats/jmespath/Budget.ts"
import * as Jmespath from "../../../src/formats/jmespath/Jmespath.ts"
import * as Rendering from "../../../src/formats/Rendering.ts"
import { make } from "../../faults/senders/fuzz/Random.ts"
import { decimal, expression, sameNumber, value } from "./random.ts"

beforeAll(() => Effect.runPromise(Jmespath.load))

/** The result, or the failure's message. */
const made = (text: string, root: unknown): Result.Result<unknown, string> =>
  Result.mapError(
    Rendering.attempt(() => JSON.parse(Jmespath.compile(text, "body.jmespath").json(root))),
    ({ message }) => message,
  )
const of = (text: string, root: unknown): unknown => Result.getOrThrowWith(made(text, root), (why) => new Error(why))
const failure = (text: string, root: unknown): string =>
  Result.match(made(text, root), { onSuccess: (value) => `it gave ${JSON.stringify(value)}`, onFailure: (why) => why })

describe("an expression", () => {
  test("gives the same results as the library for random expressions over random values", () => {
    const sides = { same: 0, bothFail: 0 }
    for (let round = 0; round < 5_000; round++) {
      const random = make(20_261_125 + round)
      const text = expression(random)
      const root = value(random)
      const mine = made(text, root)
      let theirs: unknown
      try {
        theirs = search(JSON.parse(JSON.stringify(root)), text) ?? null
      } catch {
        expect([text, root, Result.isFailure(mine)]).toEqual([text, root, true])
        sides.bothFail++
        continue
      }
      expect([text, root, mine]).toEqual([text, root, Result.succeed(theirs)])
      sides.same++
    }
    expect(sides.same).toBeGreaterThan(1_000)
    expect(sides.bothFail).toBeGreaterThan(100)
  })

  test("orders, trims and groups by the specification, even where the library doesn't", () => {
    expect(of("sort(@)", [10, 9, 1])).toEqual([1, 9, 10])
    expect(of("max_by(@, &n).n", [{ n: "a" }, { n: "b" }])).toBe("b")
    expect(of("trim(@)", "  a\nb \t")).toBe("a\nb")
    expect(of("group_by(@, &k)", [{ k: "constructor" }, { k: "__proto__" }])).toEqual(
      JSON.parse('{"constructor": [{"k": "constructor"}], "__proto__": [{"k": "__proto__"}]}'),
    )
    expect(of("let $x = b in map(&[@, $x], a)", { a: [1, 2], b: 3 })).toEqual([
      [1, 3],
      [2, 3],
    ])
    expect(of("replace('a-b-c', '-', '+', `1`)", null)).toBe("a+b-c")
    expect(of("[pad_left('7', `3`, '0'), pad_right('7', `2`), find_last('abab', 'b')]", null)).toEqual(["007", "7 ", 3])
  })

  test("reads an object's own fields only, and writes any", () => {
    expect(of("[constructor, toString, __proto__, a.constructor]", { a: {} })).toEqual([null, null, null, null])
    const root = JSON.parse('{"__proto__": {"x": 1}}')
    expect(of("__proto__.x", root)).toBe(1)
    expect(Jmespath.compile("{__proto__: __proto__}", "").json(root)).toBe('{"__proto__":{"x":1}}')
    expect(Jmespath.compile("merge(@, @)", "").json(root)).toBe('{"__proto__":{"x":1}}')
  })

  test("takes no object of an event for an expression", () => {
    const event = { code: { expref: true, type: "Field", name: "secret" }, list: [{ secret: 1 }] }
    expect(Jmespath.problem("map(code, list)")?.message).toBe(
      "argument 1 of map() is an expression: it begins with &, at character 1",
    )
    expect(of("type(code)", event)).toBe("object")
  })

  test("changes no number: it passes on the sender's digits", () => {
    for (let round = 0; round < 2_000; round++) {
      const number = decimal(make(round))
      const root = Numbers.parse(`{"list": [{"n": ${number}}, {"n": 1}]}`)
      const written = Jmespath.compile("list[?n != `1`] | [0].{same: n} || {same: `1`}", "").json(root)
      expect([number, sameNumber(/:(.*)\}/.exec(written)?.[1] ?? "", number)]).toEqual([number, true])
      // A literal is also compared with all of its digits.
      expect(Jmespath.compile(`list[0].n == \`${number}\``, "").holds(root)).toBe(true)
    }
  })

  test("compares and orders numbers by their exact value", () => {
    const root = Numbers.parse('{"id": 12345678901234567890, "near": 12345678901234567891, "half": 0.50}')
    const holds = (text: string) => Jmespath.compile(text, "").holds(root)
    expect(holds("id == `12345678901234567890.0`")).toBe(true)
    expect(holds("id == near || `12345678901234567891` == id")).toBe(false)
    expect(holds("id < near && near > id && id <= `1234567890123456789e1` && !(id > id)")).toBe(true)
    expect(holds("contains([id, half], near)")).toBe(false)
    expect(holds("contains([id, half], `5e-1`)")).toBe(true)
    expect(Jmespath.compile("[max([id, near, half]), sort([near, half, id])]", "").json(root)).toBe(
      "[12345678901234567891,[0.5,12345678901234567890,12345678901234567891]]",
    )
  })

  test("refuses to calculate with a number that it would round", () => {
    const root = Numbers.parse('{"id": 12345678901234567890, "small": 2}')
    expect(failure("id + `1`", root)).toContain("would round a number")
    expect(failure("{a: sum([small, id])}", root)).toContain("sum() at character 5 would round a number")
    expect(Jmespath.compile("[id > small, to_string(id), to_number('12345678901234567891'), id]", "").json(root)).toBe(
      '[true,"12345678901234567890",12345678901234567891,12345678901234567890]',
    )
    expect(failure("small / `0`", root)).toContain("divides by zero")
  })

  test("reports the function that failed, and nothing of the event", () => {
    const said = failure("{a: join(', ', people[].secret)}", { people: [{ secret: "geheim" }, { secret: 7 }] })
    expect(said).toBe(
      "the expression at body.jmespath fails: join() at character 5 takes an array of strings as argument 2, and got array of string, number",
    )
  })

  test("with a problem compiles, and fails with each event", () => {
    expect(failure("a[", {})).toBe(
      "the expression at body.jmespath fails: the expression ends too early, at character 3",
    )
  })
})

describe("a wrong expression", () => {
  const wrong: ReadonlyArray<readonly [text: string, offset: number, message: RegExp]> = [
    ["a b", 2, /has "b" where it can't be/],
    ["a[", 2, /ends too early/],
    ["a == 5", 5, /has "5" where it can't be/],
    ["{a: b c: d}", 6, /has "c" where it can't be/],
    ["join(a b)", 7, /has "b" where it can't be/],
    ["{a: b, c}", 8, /has "}" where it can't be/],
    ["'abc", 0, /quote is not closed/],
    ["a.`x`", 2, /no JSON between these backticks/],
    ["[a, lenght(b)]", 4, /no function lenght\(\)/],
    ["a | join(b)", 4, /join\(\) takes 2 arguments, and has 1/],
    ["sort_by(a, b)", 0, /argument 2 of sort_by\(\) is an expression/],
    ["length(&a)", 0, /argument 1 of length\(\) is a value/],
    ["[?a = b]", 4, /write `==`/],
    ["let $a = b, c.d = e in $a", 16, /write `==`/],
    ["let $a = b, c.$d = e in $a", 14, /has "\$d" where/],
    ["let $a = b, $a + $d = e in $a", 0, /followed by `\$name = value`/],
    ["a[::0]", 2, /step is not 0/],
    ["a[0-1]", 2, /has "0-1"/],
    ["a[--1]", 2, /has "--1"/],
    ["a[--]", 2, /has "--"/],
    ["a[1:--1]", 4, /has "--1"/],
    ["$count", 0, /no variable \$count/],
    ["", 0, /is empty/],
    ["x".repeat(limits.length + 1), limits.length, /more than 8192 characters/],
    [`a${".b".repeat(limits.depth)}`, 0, /nested more than 200 levels/],
  ]
  test("is refused with the position of the mistake", () => {
    for (const [text, offset, message] of wrong) {
      const problem = Jmespath.problem(text)
      expect([text, problem?.offset]).toEqual([text, offset])
      expect(problem?.message).toMatch(message)
    }
  })
})

describe("an expression that goes on and on", () => {
  const many = Array.from({ length: 1_000 }, (_, index) => ({ n: index, s: "x".repeat(100) }))
  const spaces = `${" ".repeat(200_000)}x`
  const cases: ReadonlyArray<readonly [name: string, text: string, root: unknown, why: RegExp]> = [
    ["loops in loops", "[].[$[].[$[].[$[].n]]]", many, /takes more than 200,000 steps/],
    [
      "a text doubled again and again",
      `${"join('', [@, @]) | ".repeat(40)}@`,
      "x",
      /a text of more than 1048576 characters/,
    ],
    ["a list doubled again and again", `${"[@, @] | ".repeat(60)}@`, 1, /JSON of more than|steps/],
    [
      "a comparison of such lists",
      `(${"[@, @] | ".repeat(40)}@) == (${"[@, @] | ".repeat(40)}@)`,
      1,
      /takes more than 200,000 steps/,
    ],
    ["padding", "pad_left('', n)", { n: 1e9 }, /a text of more than 1048576 characters/],
    ["replacing", "replace(@, 'x', to_string(@))", "x".repeat(5_000), /a text of more than 1048576 characters/],
    ["trimming", "trim_right(@)", spaces, /takes more than 200,000 steps/],
    ["searching", "contains(a, b)", { a: "ab".repeat(200_000), b: `${"ab".repeat(90_000)}b` }, /steps/],
    ["sorting", "sort_by([].{n: n, all: sort_by($, &n)}, &n)", many, /takes more than 200,000 steps/],
  ]
  test.each(cases)("by %s ends", (_, text, root, why) => {
    expect(failure(text, root)).toMatch(why)
  })

  test("leaves the next event all of its steps", () => {
    const { json } = Jmespath.compile("[].[$[].n]", "")
    expect(Result.isFailure(Rendering.attempt(() => json(many)))).toBe(true)
    expect(json(many.slice(0, 2))).toBe("[[[0,1]],[[0,1]]]")
  })
})

test("a literal with blanks that JSON does not allow is refused at its place", () => {
  for (const blank of ["\u00a0", "\u2003", "\u000b", "\ufeff"]) {
    const found = Jmespath.problem(`a == \`${blank}1\``)
    expect(found).toMatchObject({ message: expect.stringContaining("there is no JSON"), offset: 5 })
  }
})
