/** Hostile JMESPath expressions over hostile events: each ends, within its limits, and tells nothing of the event. */
import { Effect, Result } from "effect"
import * as Numbers from "../../../../src/event/Numbers.ts"
import { limits } from "../../../../src/formats/jmespath/Budget.ts"
import * as Jmespath from "../../../../src/formats/jmespath/Jmespath.ts"
import * as Rendering from "../../../../src/formats/Rendering.ts"
import * as Template from "../../../../src/formats/Template.ts"
import { expression, value } from "../../../formats/jmespath/random.ts"
import { bytes, entry, envelope } from "../../../sinks/samples.ts"
import type { Found, Fuzz, Random } from "./Random.ts"

const canary = "CANARY-3141592653"

const times = (random: Random, part: string): string => part.repeat(random.pick([1, 3, 20, 300, 3_000]))

/** Returns an expression that grows with each repetition, or whose result does. */
const growing = (random: Random): string =>
  random.pick([
    () => `${times(random, "[@, @] | ")}@`,
    () => `${times(random, "join('', [to_string(@), to_string(@)]) | ")}@`,
    () => `${times(random, "list[].[$.")}a${times(random, "]")}`,
    () => `${times(random, "map(&[@, $], ")}list${times(random, ")")}`,
    () => `${times(random, "(")}a${times(random, ")")}`,
    () => `${times(random, "!")}a${times(random, ".a")}${times(random, "[]")}`,
    () => `pad_left(text, \`${random.pick(["1e9", "1048576", "-1", "1e400"])}\`)`,
    () => `replace(text, '${random.pick(["", "x", " "])}', to_string(@))`,
    () => `${random.pick(["trim", "reverse", "length", "upper"])}(text)`,
    () => `sort_by(list, &to_string(@)) | ${random.pick(["sort", "max", "sum", "avg"])}(@)`,
    () => `zip(${times(random, "list, ")}list)`,
    () => `let $x = a${random.pick([",", ""])} ${expression(random)} = b in ${random.pick(["$x", "$y", "@"])}`,
    () => `let ${times(random, "$x = @, ")}$y = @ in [$x, $y, $events, $webhook]`,
    () => `contains(text, '${times(random, "xy")}')`,
  ])()

const text = (random: Random): string => {
  switch (random.below(6)) {
    case 0:
      return random.trouble(12)
    case 1:
    case 2:
      return growing(random)
    case 3:
      return random.hurt(random.chance(0.5) ? expression(random) : growing(random), 2)
    default:
      return expression(random)
  }
}

const deep = (random: Random): string => {
  const depth = random.pick([10, 900, 3_000])
  return `${'{"a":['.repeat(depth)}1${"]}".repeat(depth)}`
}

/** JSON whose texts are the canary, next to texts, numbers and lists that give trouble. */
const object = (random: Random): string => {
  const number = () => random.pick(["12345678901234567890", "1e400", "-0", "0.1234567890123456789012", "1e-999", "7"])
  const list = random.some(random.pick([5, 5, 2_000]), () =>
    random.pick([number(), '"x"', "null", `"${canary}"`, "[1]"]),
  )
  const long = random.pick([" ", "x", "xy", canary]).repeat(random.pick([1, 50, 20_000]))
  return `{"id":"${canary}","text":${JSON.stringify(long)},"list":[${list.join(",")}],"number":${number()},"__proto__":{"a":1},"b":${random.chance(0.1) ? deep(random) : JSON.stringify(value(random))}}`
}

const round = (random: Random): Found => {
  const jmespath = text(random)
  const problem = Jmespath.problem(jmespath, Template.variableNames(true))
  const json = object(random)
  const root = random.chance(0.5) ? Numbers.parse(json) : value(random)
  const { holds } = Jmespath.compile(jmespath, "where")
  Rendering.attempt(() => holds(root))
  const event = entry(1, { body: bytes(JSON.stringify(envelope(1)).replace('{"id":"apt_1"}', json)) })
  const side = problem === undefined ? "an expression" : "wrong text"
  for (const template of [Template.compileBody({ jmespath }), Template.compile({ jmespath }, "header")]) {
    const made = Rendering.attempt(() => template.render(event))
    if (Result.isSuccess(made)) {
      if (problem !== undefined) return { side, wrong: `${jmespath.slice(0, 99)} is wrong and gives ${made.success}` }
      // In a header a character may be written as nine.
      if (made.success.length > limits.result * 9) return { side, wrong: `${jmespath.slice(0, 99)} gives too much` }
    } else if (made.failure.message.includes(canary) && !jmespath.includes(canary)) {
      return { side, wrong: `the failure of ${jmespath.slice(0, 99)} tells of the event: ${made.failure.message}` }
    }
  }
  const body = Rendering.attempt(() => Template.compileBody({ jmespath }).render(event))
  if (Result.isFailure(body)) return { side: problem === undefined ? "a failure" : side }
  if (body.success.length > limits.result) return { side, wrong: `${jmespath.slice(0, 99)} gives too much` }
  JSON.parse(body.success)
  return { side }
}

export const Expressions: Fuzz = {
  name: "fuzz-expressions",
  fault: "hostile JMESPath expressions and events",
  sides: ["wrong text", "an expression", "a failure"],
  open: async () => {
    await Effect.runPromise(Jmespath.load)
    return round
  },
}
