import { expect, test } from "bun:test"
import * as Hold from "../../src/runtime/Hold.ts"

const url = "http://relay.example/hooks"
const sized = (text: string, length = text.length) =>
  new Request(url, { method: "POST", body: text, headers: { "content-length": String(length) } })
/** A body without a length, which ends if `ends` is true. */
const chunked = (text: string, ends = false) => {
  const body = new ReadableStream({
    start: (to) => {
      to.enqueue(Buffer.from(text))
      if (ends) to.close()
    },
  })
  return new Request(url, { method: "POST", body })
}
const echo = async (request: Request) => new Response(`got ${await request.text()}`)
const answer = async (response: Response | Promise<Response>) => {
  const { status, headers } = await response
  return [status, headers.get("retry-after"), headers.get("connection")]
}

test("held requests wait for the next handler, with and without a length", async () => {
  const hold = Hold.makeHold()
  const answers = [sized("one"), chunked("two", true), new Request(url)].map((request) => hold.handle(request))
  expect(hold.size()).toBe(3)
  hold.passTo(echo)
  const texts = await Promise.all(answers.map(async (response) => (await response).text()))
  expect(texts).toEqual(["got one", "got two", "got "])
  expect(hold.size()).toBe(0)
})

test("a request after a handler is held for the next handler", async () => {
  const hold = Hold.makeHold()
  hold.passTo(echo)
  const waiting = hold.handle(sized("one"))
  hold.passTo(() => new Response("the next"))
  expect(await (await waiting).text()).toBe("the next")
})

test("a request that was held too long gets 503, and so does a request whose body doesn't end", async () => {
  const hold = Hold.makeHold(1)
  expect(await answer(hold.handle(sized("one")))).toEqual([503, "1", "close"])
  expect(await answer(hold.handle(chunked("a part")))).toEqual([503, "1", "close"])
  expect(hold.size()).toBe(0)
})

test("held bodies beyond 64 MiB get 503, and there is room again after they were passed on", async () => {
  const hold = Hold.makeHold()
  const most = hold.handle(sized("", Hold.maxBytes))
  expect(await answer(hold.handle(sized("", 1)))).toEqual([503, "1", "close"])
  expect(await answer(hold.handle(chunked("x")))).toEqual([503, "1", "close"])
  hold.passTo(echo)
  await most
  const again = hold.handle(sized("", Hold.maxBytes))
  hold.passTo(echo)
  expect((await again).status).toBe(200)
})
