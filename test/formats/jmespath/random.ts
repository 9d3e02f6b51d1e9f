/** Random expressions and values, for comparison with an oracle and for hostile input. */
import type { Random } from "../../faults/senders/fuzz/Random.ts"

const names = ["a", "b", "c", "list", "text", "number", "nothing"]

/** A value whose fields have the names that expressions use. */
export const value = (random: Random, depth = 0): unknown => {
  switch (random.below(depth > 3 ? 5 : 8)) {
    case 0:
      return random.pick(["", "x", "b,a", "A b", "2026-11-25T10:00:00Z"])
    case 1:
      return random.pick([0, 1, -2, 3.5, 10, 100])
    case 2:
      return random.pick([true, false, null])
    case 3:
      return random.some(4, () => random.pick([3, 1, 20, 100]))
    case 4:
      return random.some(4, () => random.pick(["b", "a", "x,y", ""]))
    case 5:
      return random.some(4, () => value(random, depth + 1))
    default:
      return Object.fromEntries(names.filter(() => random.chance(0.6)).map((name) => [name, value(random, depth + 1)]))
  }
}

const literal = (random: Random): string =>
  random.pick(["'x'", "'a'", "','", "`1`", "`2.5`", "`null`", "`true`", "`[]`", '`{"a": [1, 2]}`', "`[3, 1]`"])

/** Functions and their parameters: `v` is a value, `r` an expression reference. */
const functions: ReadonlyArray<readonly [name: string, takes: string]> = [
  ...["abs", "avg", "ceil", "floor", "sum", "keys", "values", "items", "length", "to_array", "to_string"].map(
    (name) => [name, "v"] as const,
  ),
  ...["lower", "upper", "reverse", "type", "not_null", "from_items", "merge", "zip"].map(
    (name) => [name, "v"] as const,
  ),
  ...["starts_with", "ends_with", "join", "split", "find_first", "find_last"].map((name) => [name, "vv"] as const),
  ["map", "rv"],
  ["replace", "vvv"],
]

/** An expression that uses only parts in which the library follows its specification. */
export const expression = (random: Random, depth = 0): string => {
  const inner = (): string => expression(random, depth + 1)
  const name = random.pick(names)
  if (depth > 4) return random.pick([name, "@", "$", literal(random)])
  switch (random.below(19)) {
    case 0:
    case 1:
    case 2:
      return `${random.pick(["", "$."])}${name}`
    case 3:
      return `${name}.${random.pick(names)}`
    case 4:
      return `${name}[${random.pick(["0", "-1", "*", ":2", "1:", "::-1", "-2:", "5"])}]`
    case 5:
      return `${name}[].${random.pick(names)}`
    case 6:
      return `${name}[?${inner()}]`
    case 7:
      return `*.${random.pick(names)}`
    case 8:
      return `(${inner()}) | ${inner()}`
    case 9:
      return `{a: ${inner()}, ${JSON.stringify(random.pick(["b", "c d"]))}: ${inner()}}`
    case 10:
      return `[${inner()}, ${inner()}]`
    case 11:
      return `(${inner()}) ${random.pick(["||", "&&", "==", "!=", "<", "<=", ">", ">="])} (${inner()})`
    case 12:
      return `!(${inner()})`
    case 13:
      return `(${inner()}) ${random.pick(["+", "-", "*", "%"])} (${inner()})`
    case 14:
      return `(${inner()}) ? (${inner()}) : (${inner()})`
    case 15:
      return literal(random)
    default: {
      const [called, takes] = random.pick(functions)
      return `${called}(${[...takes].map((one) => (one === "r" ? `&${inner()}` : inner())).join(", ")})`
    }
  }
}

/** A JSON number of up to fifty digits. */
export const decimal = (random: Random): string => {
  const digit = () => random.pick([..."0123456789"])
  const digits = (most: number) => random.some(most, digit).join("")
  const whole = `${random.pick(["", "-"])}${random.chance(0.2) ? "0" : random.pick([..."123456789"]) + digits(random.pick([4, 25]))}`
  const fraction = random.chance(0.5) ? `.${digit()}${digits(random.pick([4, 25]))}` : ""
  return `${whole}${fraction}${random.chance(0.3) ? `${random.pick(["e", "E"])}${random.pick(["", "-", "+"])}${random.below(400)}` : ""}`
}

/** Whether two texts are the same number: equal digits with equal powers of ten. */
export const sameNumber = (one: string, other: string): boolean => {
  const normal = (text: string) => {
    const [, sign = "", whole = "", fraction = "", power = "0"] =
      /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? []
    const all = (whole + fraction).replace(/^0+/, "")
    const digits = all.replace(/0+$/, "")
    return digits === "" ? "0" : `${sign}${digits}e${Number(power) - fraction.length + (all.length - digits.length)}`
  }
  return normal(one) === normal(other)
}
