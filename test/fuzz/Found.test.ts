/** Inputs that once broke a target, and the fuzzing itself. `bun run fuzz` searches for others. */
import { afterAll, describe, expect, test } from "bun:test"
import { tries } from "../lib/tries.ts"
import { Counts } from "./Coverage.ts"
import { removeFiles } from "./JournalFiles.ts"
import { inputOf, readFound } from "./Kept.ts"
import { Mutations } from "./Mutations.ts"
import { Broken, played, search, type Target } from "./Search.ts"
import { targets } from "./Targets.ts"

const found = readFound()

afterAll(removeFiles)

describe.each(targets.map((target) => [target.name, target] as const))("the target %s", (name, target) => {
  test("holds for its seeds, for some changes of them, and for the inputs that once broke it", async () => {
    const play = await target.open()
    const seeds = target.seeds().map((seed) => Buffer.from(seed))
    const mutations = new Mutations({ seed: 1, words: [], longest: target.longest })
    const changed = Array.from({ length: tries(200) }, () => mutations.of(mutations.pick(seeds), mutations.pick(seeds)))
    const kept = found.filter((one) => one.target === name).map(inputOf)
    const findings = []
    for (const input of [...seeds, ...kept, ...changed]) {
      // The time of an input is the search's affair: other tests run beside this one.
      const { finding } = await played(play, input, Number.POSITIVE_INFINITY)
      if (finding !== undefined) findings.push([finding.message, Buffer.from(input).toString("base64")])
    }
    expect(findings).toEqual([])
  })
})

test("every kept input is of a target", () => {
  const names = targets.map(({ name }) => name)
  expect(found.filter(({ target }) => !names.includes(target))).toEqual([])
})

/** A parser of one word, a letter at a time. Random changes alone hardly ever find the word. */
const planted = (counts: Counts): Target => ({
  name: "planted",
  holds: "No input is the word.",
  longest: 64,
  most: 1_000,
  seeds: () => ["hello"],
  words: [..."RELAYxyz"],
  open: async () => (input) => {
    const word = Buffer.from("RELAY")
    let right = 0
    while (right < word.length && input[right] === word[right]) counts.hit(++right)
    if (right === word.length) throw new Broken("the word")
    return ""
  },
})

test("a search finds an input that only its steps lead to, and makes it short", async () => {
  const counts = new Counts()
  counts.reserve(16)
  const target = planted(counts)
  const all: Array<string> = []
  const { reached } = await search(target, await target.open(), counts, {
    seed: 1,
    until: Number.POSITIVE_INFINITY,
    executions: 10_000,
    known: [],
    onFound: (input) => all.push(Buffer.from(input).toString()),
  })
  expect(all).toEqual(["RELAY"])
  expect(reached).toBe(5)
})
