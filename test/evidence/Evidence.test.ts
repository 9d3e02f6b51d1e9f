/** The README claims what docs/evidence shows: each claim with a command, its figures, and the random mutants. */
import { describe, expect, test } from "bun:test"
import { readPage } from "../lib/docs.ts"
import { root } from "../lib/programs.ts"
import { claims, figuresIn } from "./Claims.ts"
import { evidenceOf, pageOf } from "./Page.ts"

const readme = readPage("README.md")

describe("the README", () => {
  test("has exactly the claims with a command that the evidence has", () => {
    const lines = [...readme.matchAll(/^- \*\*(.+?)\*\*: .*`(bun run [^`]+)`$/gm)]
    expect(lines.map(([, title, command]) => [title, command])).toEqual(
      claims.map(({ title, command }) => [title, command]),
    )
  })

  const stated = claims.flatMap((claim) =>
    claim.figures.flatMap(({ name, stated }) => (stated === undefined ? [] : [{ claim, name, ...stated }])),
  )
  test.each(stated.map((one) => [one.name, one] as const))("states %s as it was measured", (name, one) => {
    const number = Number(one.words.exec(readme)?.[1])
    const measured = evidenceOf(root, one.claim)?.figures[name]
    expect({ number, measured, agrees: one.agrees(number, measured ?? Number.NaN) }).toEqual({
      number: expect.any(Number),
      measured: expect.any(Number),
      agrees: true,
    })
  })
})

describe("the evidence", () => {
  test("is from the commands of the claims, with all of their figures, and nothing was lost or missed", () => {
    for (const claim of claims) {
      const evidence = evidenceOf(root, claim)
      if (evidence === undefined) continue
      const { command, flags } = claim
      expect(evidence.command).toBe(flags === undefined ? command : `${command} ${flags}`)
      expect(Object.keys(evidence.figures)).toEqual(claim.figures.map(({ name }) => name))
      expect(evidence.figures).toMatchObject(
        Object.fromEntries(
          claim.figures
            .filter(({ name }) => /lost|requirements missed/.test(name))
            .map(({ name }) => [name, 0] as const),
        ),
      )
    }
  })

  test("has a page with each claim, made from the files", () => {
    expect(readPage("docs/evidence/README.md")).toBe(pageOf(root))
  })

  test("reads the figures in the output of the commands", () => {
    const output = `seed 1
requests: a list, Bun or the binary                530          12     0           0      -       3  ok
    514 requests of 20 kinds (3 answered otherwise by Bun and Deno), 600 with random damage; 20 kept
reload: a config is replaced                        20         400     0           1      2      30  ok
file   28741 (2–3)  0.50 (0.4–0.6)  37.1 (36.0–38.0)  2.05 (2.00–2.10)  1.0 (1–2)
relay run, until ready  120 [110..130]  130 [120..140]  82 [81..83]
relay --help: CPU more than an empty program ≤ 30 ms  15.2 [14.0..16.0] ms  ok
isolated: on time   ok
12 of 14 removed guards were noticed; 2 could not be tried here; 300 s of work, with earlier runs
`
    const found = Object.assign({}, ...claims.map((claim) => figuresIn(claim, output)))
    expect(found).toEqual({
      "lines that held": 2,
      rounds: 550,
      "hostile requests": 514,
      "acknowledged events": 412,
      "lost events": 0,
      "safeguards removed": 14,
      noticed: 12,
      "seconds of work": 300,
      "requirements met": 4,
      "requirements missed": 0,
      "CPU an event, of a server that only verifies and parses": 2.05,
      "idle memory, MiB": 82,
      "CPU of --help above an empty program's, ms": 15.2,
      "bounds of the benchmark missed": 0,
    })
  })
})
