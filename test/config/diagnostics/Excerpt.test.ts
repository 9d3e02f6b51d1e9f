import { expect, test } from "bun:test"
import { excerpt, tokensOf } from "../../../src/config/diagnostics/Syntax.ts"

const sinks = (names: ReadonlyArray<string>) =>
  `{"sinks":{${names.map((name) => `"${name}":{"type":"file","path":"/var/log/${name}"}`).join(",")}}}`

test("an excerpt of a config in one line reads only the tokens around its place", () => {
  const text = sinks(Array.from({ length: 5_000 }, (_, n) => `sink_${n}`))
  let reads = 0
  const tokens = new Proxy(tokensOf(text), {
    get: (all, key) => {
      if (key !== "length") reads += 1
      return Reflect.get(all, key)
    },
  })
  const word = '"sink_2500"'
  const {
    text: shown,
    start,
    length,
  } = excerpt(text, tokens, { offset: text.indexOf(word), length: word.length }, true)
  expect(shown.slice(start, start + length)).toBe(word)
  expect(shown).toHaveLength(101)
  expect(reads).toBeLessThan(1_000)
})

test("an excerpt at either end of a long line shows the end", () => {
  const names = Array.from({ length: 200 }, (_, n) => `sink_${n}`)
  const text = sinks(names)
  const of = (word: string) =>
    excerpt(text, tokensOf(text), { offset: text.indexOf(word), length: word.length }, true).text
  expect(of('"sinks"')).toStartWith('{"sinks":{"sink_0":{"type":')
  expect(of('"sink_199"')).toMatch(/^….*"sink_199":\{"type":"…","path":"…"\}\}\}$/)
})
