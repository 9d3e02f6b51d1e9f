/** Configs with random damage: they load, or every mistake in them is reported with its place. */
import { readFileSync } from "node:fs"
import { resolve } from "node:path"
import { Cause, Effect, Exit, Result } from "effect"
import { ConfigError, type Diagnostic } from "../../../../src/config/diagnostics/Diagnostic.ts"
import { load } from "../../../../src/config/load/Load.ts"
import { hmacSha256 } from "../../../../src/event/Signature.ts"
import { journalTypes } from "../../../../src/journal/Journals.ts"
import { makeTable } from "../../../../src/routing/Router.ts"
import { sinkTypes } from "../../../../src/sinks/SinkTypes.ts"
import { config, readFile } from "../../../config/fixture.ts"
import { themes } from "../../../config/mistakes/themes.ts"
import type { Found, Fuzz, Random } from "./Random.ts"

const canary = "CANARY-2718281828"
const root = resolve(import.meta.dir, "../../../..")

/** Configs without a mistake. */
export const good: ReadonlyArray<string> = [
  ...[
    "relay.config.json",
    "config/examples/two-accounts.json",
    "config/examples/kafka.json",
    "config/examples/production.json",
  ].map((file) => readFileSync(resolve(root, file), "utf8")),
  config({
    webhooks: { w: { path: "/", secrets: [{ name: "now", value: canary }], maxBody: "1 MiB" } },
    admin: { token: canary },
    sinks: { audit: { type: "http", url: "https://example.com", headers: { authorization: canary } } },
  }),
]

const odd = (random: Random): string =>
  random.pick([
    "null",
    "true",
    "0",
    "-1",
    "1e999",
    '""',
    "[]",
    "{}",
    '"**"',
    '"1 second"',
    '"$' + '{A:-b}"',
    '"file:x"',
  ])

const bad = themes.flatMap(({ mistakes }) =>
  Object.values(mistakes)
    .map((mistake) => (typeof mistake === "string" ? mistake : mistake.config))
    .flatMap((config) => (config === undefined ? [] : [config.replace("§", "")])),
)

/** Text as it comes, or a value of the JSON exchanged. */
const damage = (text: string, random: Random): string => {
  if (random.chance(0.3)) return text
  if (random.chance(0.4)) return random.hurt(text, 1 + random.below(4))
  const values = [...text.matchAll(/"(?:[^"\\\n]|\\.)*"|\d+|true|false/g)]
  let hurt = text
  for (const found of [random.pick(values), random.pick(values)]) {
    if (found === undefined || !random.chance(0.7)) continue
    const value = random.chance(0.5) ? odd(random) : JSON.stringify(random.trouble(3))
    hurt = hurt.slice(0, found.index) + value + hurt.slice(found.index + found[0].length)
  }
  return hurt
}

const misplaced = (
  text: string,
  { file, line, column, message, severity, excerpt }: Diagnostic,
): string | undefined => {
  const lines = text.split("\n")
  if (message === "" || file !== "relay.config.json") return "a diagnostic without words"
  if (severity !== "error" && severity !== "warning") return "a diagnostic of no severity"
  if (line < 1 || line > lines.length) return `line ${line} of ${lines.length}`
  // A line ends before its line break, and something may be missing right behind the last character.
  if (column < 1 || column > (lines[line - 1] ?? "").length + 1) return `column ${column} of line ${line}`
  if (excerpt === undefined) return text.trim() === "" ? undefined : "no excerpt"
  return excerpt.start < 0 || excerpt.length < 1 || excerpt.text.includes("\n") ? "an excerpt of no line" : undefined
}

/** Loads a config. It loads, or each mistake has its place and tells no secret. */
export const checkConfig = async (text: string): Promise<Found> => {
  const files = readFile({ "relay.config.json": text, x: "from a file" })
  const exit = await Effect.runPromiseExit(
    load("relay.config.json", { sinkTypes, journalTypes, env: { HOME: "/home/x" }, readFile: files }),
  )
  const tell = (side: string, what: string): Found => ({ side, wrong: `${what}: ${JSON.stringify(text)}` })
  if (Exit.isSuccess(exit)) {
    makeTable(exit.value.config, hmacSha256)
    const problem = exit.value.warnings.map((one) => misplaced(text, one)).find((one) => one !== undefined)
    return problem === undefined ? { side: "loaded" } : tell("loaded", problem)
  }
  const error = Cause.findError(exit.cause)
  if (Result.isFailure(error) || !(error.success instanceof ConfigError))
    return tell("refused", Cause.pretty(exit.cause))
  const { diagnostics, message } = error.success
  if (!diagnostics.some(({ severity }) => severity === "error")) return tell("refused", "refused without an error")
  const problem = diagnostics.map((one) => misplaced(text, one)).find((one) => one !== undefined)
  if (problem !== undefined) return tell("refused", problem)
  // The canary may be shown as a key, or as the name of a secret's file, because neither is a secret.
  const isName = /CANARY-2718281828[^"\n]*"\s*:|"file:CANARY/.test(text)
  return message.includes(canary) && !isName ? tell("refused", "a secret is shown") : { side: "refused" }
}

const round = (random: Random): Promise<Found> =>
  checkConfig(damage(random.pick(random.chance(0.7) ? good : bad), random))

export const Configs: Fuzz = {
  name: "fuzz-config",
  fault: "configs with random damage",
  sides: ["loaded", "refused"],
  open: async () => round,
}
