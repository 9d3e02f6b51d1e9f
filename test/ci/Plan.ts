/** The steps of `.ci/run`. */
import { spawnSync } from "node:child_process"
import { readdirSync } from "node:fs"
import process from "node:process"
import { timeless } from "../faults/Line.ts"
import type { Plan, Step } from "./Run.ts"

const bun = process.execPath

const tests = (name: string, command: ReadonlyArray<string>, env: Step["env"] = {}): Step => ({
  name,
  command,
  env,
  kind: "tests",
})

const script = (name: string, ...words: ReadonlyArray<string>): Step => ({
  name,
  command: [bun, "run", ...words],
  kind: "check",
})

/**
 * Adds the parts that a plain `bun test` skips: Kafka (Java 17, Maven), moto (Python 3.10), PostgreSQL from npm,
 * Chromium, systemd.
 */
const parts = { RELAY_PARTS: "1" }

const defects = (name: string, ...words: ReadonlyArray<string>): Step => ({
  ...script(name, ...words),
  env: parts,
  kind: "defects",
})

/** `bun test` in parts of about the same length. The last part has the tests that no other part names. */
const folders = ["test/e2e", "test/journal", "test/sinks", "test/page"]
const all: ReadonlyArray<Step> = [
  ...folders.map((folder) => tests(`bun test ${folder}`, [`${folder}/`], parts)),
  tests(
    "bun test, the other folders",
    folders.map((folder) => `--path-ignore-patterns=${folder}/**`),
    parts,
  ),
]

/** The suites of all sinks that are services: each has a test with the whole program. */
const suites = readdirSync("test/sinks", { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith("Program.test.ts"))
  .map((path) => `test/sinks/${path.slice(0, -"Program.test.ts".length)}`)
  .map((stem) => ["contract.test.ts", "test.ts"].map((name) => `${stem}.${name}`).concat(`${stem}Program.test.ts`))
const isKafka = (path: string): boolean => path.includes("/kafka/")
const kafkaFiles = [...suites.flat().filter(isKafka), "test/sinks/kafka/KafkaClosed.test.ts"]
const otherSinks = suites.flat().filter((path) => !isKafka(path))
const underDeno = ["http", "service", "metrics", "trace", "page"].map((name) => `test/e2e/${name}`)
const from = (runtime: string, more: Step["env"] = {}) => ({ ...more, RELAY_UNDER: runtime })

/** The campaign and the mutants are drawn from the commit, so the same commit tries the same cases again. */
const seed = (): string => {
  const { stdout } = spawnSync("git", ["rev-parse", "--short=5", "HEAD"], { encoding: "utf8" })
  return String(Number.parseInt(stdout?.trim() || "1", 16))
}

export const plan = (): Plan => {
  const faults = ["faults", "--bail", "--seed", seed()]
  return {
    first: [
      { name: "install by the lock", command: [bun, "install", "--frozen-lockfile"], kind: "check" },
      script("build the binary", "build:native"),
    ],
    sideBySide: [
      ...all,
      // `bun test` runs these from the binary:
      tests("the whole program from its source", ["test/e2e", "test/docs/commands"], from("bun")),
      defects("simulations and random input", ...faults, ...timeless.map((name) => `--only=${name}`)),
      tests("HTTP, service, metrics, traces and the page under Deno", underDeno, from("deno")),
      tests("Kafka 3.9 under Deno", kafkaFiles, { ...from("deno", parts), RELAY_KAFKA: "3.9" }),
      tests("Kafka from the binary", kafkaFiles, from("binary", parts)),
      tests("sinks of other services under Deno", otherSinks, from("deno", parts)),
      tests("sinks of other services from the binary", otherSinks, from("binary", parts)),
      defects("conditions of services, short", "conditions", "--quick", "--binary", "dist/relay"),
      script("all that goes out: packages, tarballs, their parts and checksums", "release"),
      script("ten random mutants", "mutants", "--again", "10", "--seed", seed()),
      script("type check", "typecheck"),
      script("lint and format", "lint"),
    ],
    quiet: [
      defects(
        "the fault campaign, short",
        ...[...faults, "--binary", "dist/relay", ...timeless.map((name) => `--except=${name}`)],
      ),
      defects("one sink down, short", "isolation", "--quick"),
      defects("two senders, short", "isolation", "--senders", "--quick"),
    ],
  }
}
