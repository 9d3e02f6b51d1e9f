/** Patterns against the oracle of their meaning. */
import { eventTypes, relayEventTypes } from "../../../../src/event/EventType.ts"
import { nearest } from "../../../../src/event/Nearest.ts"
import * as Pattern from "../../../../src/routing/Pattern.ts"
import { matches as means } from "../../../routing/oracle.ts"
import type { Found, Fuzz, Random } from "./Random.ts"

const word = (random: Random): string => random.pick(["a", "b", "ab", "client", "created", "0", "_", "-", "meeting"])

const part = (random: Random, depth: number): string => {
  const choice = random.below(depth > 1 ? 4 : 6)
  if (choice === 0) return "*"
  if (choice === 1) return `${word(random)}*`
  if (choice < 4) return word(random)
  const count = random.chance(0.05) ? 1 : 2 + random.below(2)
  const choices = Array.from({ length: count }, () => (random.chance(0.05) ? "" : part(random, depth + 1)))
  return `${random.pick(["", "", "a", "*"])}{${choices.join(",")}}${random.pick(["", "", "b", "*"])}`
}

const segment = (random: Random): string => (random.chance(0.2) ? "**" : part(random, 0))

const pattern = (random: Random): string => {
  if (random.chance(0.15)) return random.trouble(6)
  const dotted = [...(random.chance(0.1) ? ["relay"] : []), segment(random), ...random.some(3, () => segment(random))]
  return random.chance(0.1) ? random.hurt(dotted.join("."), 1) : dotted.join(".")
}

const type = (random: Random): string => {
  if (random.chance(0.1)) return random.trouble(5)
  if (random.chance(0.3)) return random.pick([...eventTypes, ...relayEventTypes])
  return [word(random), ...random.some(3, () => random.pick([word(random), "abb", "clients"]))].join(".")
}

const isDotted = (type: string): boolean => !type.includes("/") && type.split(".").every((segment) => segment !== "")

/** Only the pattern for everything matches a type that isn't a dotted name. */
const expected = (source: string, type: string): boolean =>
  isDotted(type) ? means(source, type) : source === "**" && !type.startsWith("relay.")

/** Compares a pattern with the oracle, for some types. */
export const checkPattern = (source: string, types: Iterable<string>): Found => {
  if (Pattern.problem(source) !== undefined) return { side: "wrong text" }
  const made = Pattern.make(source)
  let side = "not taken"
  for (const one of types) {
    const taken = made.matches(one)
    if (taken) side = "taken"
    if (taken !== expected(source, one)) {
      return { side, wrong: `${JSON.stringify(source)} ${taken ? "takes" : "does not take"} ${JSON.stringify(one)}` }
    }
  }
  nearest(source, eventTypes)
  return { side }
}

const round = (random: Random): Found =>
  checkPattern(
    pattern(random),
    Array.from({ length: 5 }, () => type(random)),
  )

export const Patterns: Fuzz = {
  name: "fuzz-patterns",
  fault: "random patterns and event types",
  sides: ["wrong text", "taken", "not taken"],
  open: async () => round,
}
