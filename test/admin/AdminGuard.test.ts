import { describe, expect, test } from "bun:test"
import { Redacted } from "effect"
import * as Guard from "../../src/admin/Server.ts"

const loopback = { host: "127.0.0.1", port: 9080 }
const everywhere = { host: "0.0.0.0", port: 9080 }
const token = Redacted.make("a-token")

const request = (headers: Record<string, string>, method = "GET", path = "/api/v1/status") =>
  new Request(`http://127.0.0.1:9080${path}`, { method, headers: { host: "127.0.0.1:9080", ...headers } })

describe("the admin API's guard", () => {
  const admit = Guard.guard({ listen: loopback })
  const status = (headers: Record<string, string>, method?: string) => admit(request(headers, method)).problem?.status

  test("lets in the names of this machine, with a port or without", () => {
    for (const host of ["127.0.0.1:9080", "localhost:9080", "LocalHost", "[::1]:9080", "127.9.9.9"]) {
      expect(status({ host })).toBeUndefined()
    }
  })

  test("refuses any other host: a name can be rebound to loopback", () => {
    for (const host of [
      "evil.example",
      "evil.example:9080",
      "127.0.0.1.evil.example",
      "localhost.evil",
      "10.0.0.1",
      "",
    ]) {
      expect(status({ host })).toBe(421)
    }
  })

  test("beyond loopback takes any address, and no other name", () => {
    const open = Guard.guard({ listen: everywhere, token })
    const bearer = { authorization: "Bearer a-token" }
    expect(open(request({ host: "10.1.2.3:9080", ...bearer })).problem).toBeUndefined()
    expect(open(request({ host: "10.1.2.3:9080" })).problem?.status).toBe(401)
    expect(open(request({ host: "evil.example" })).problem?.status).toBe(421)
  })

  test("accepts a token's holder under any host name", () => {
    const open = Guard.guard({ listen: everywhere, token })
    expect(open(request({ host: "relay.internal", authorization: "Bearer a-token" })).problem).toBeUndefined()
  })

  test("takes no change from a page of another site", () => {
    expect(status({ "sec-fetch-site": "cross-site" }, "POST")).toBe(403)
    expect(status({ "sec-fetch-site": "same-site" }, "POST")).toBe(403)
    expect(status({ origin: "http://evil.example" }, "POST")).toBe(403)
    expect(status({ origin: "null" }, "POST")).toBe(403)
    for (const type of ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "Text/Plain"]) {
      expect(status({ "content-type": type }, "POST")).toBe(403)
    }
    expect(status({ "content-type": "application/json" }, "POST")).toBeUndefined()
    expect(status({ origin: "http://127.0.0.1:8000" }, "DELETE")).toBe(403)
    expect(status({ origin: "http://127.0.0.1:9080", "sec-fetch-site": "same-origin" }, "POST")).toBeUndefined()
    expect(status({}, "POST")).toBeUndefined()
  })

  test("asks for the whole token", () => {
    const guarded = Guard.guard({ listen: loopback, token })
    const code = (authorization?: string, path?: string) =>
      guarded(request(authorization === undefined ? {} : { authorization }, "GET", path)).problem?.status
    for (const wrong of [
      undefined,
      "",
      "Bearer",
      "Bearer ",
      "Bearer a-toke",
      "Bearer a-token2",
      "bearer a-token",
      "a-token",
    ]) {
      expect(code(wrong)).toBe(401)
    }
    expect(code("Bearer a-token")).toBeUndefined()
    expect(code(undefined, "/metrics")).toBe(401)
  })

  test("recognizes the holder of each token, but not by a part of a token or by two tokens", () => {
    const make = (index: number) => ({
      name: `holder${index}`,
      role: index % 2 === 0 ? ("read" as const) : ("operate" as const),
      value: Redacted.make(`token-${index}-${"x".repeat(index)}`),
    })
    const tokens = Array.from({ length: 20 }, (_, index) => make(index))
    const admit = Guard.guard({ listen: loopback, tokens })
    for (const { name, role, value } of tokens) {
      const text = Redacted.value(value)
      expect(admit(request({ authorization: `Bearer ${text}` }))).toEqual({ name, role })
      for (const wrong of [text.slice(1), text.slice(0, -1), `${text} `.repeat(2), `${text}-`, text.toUpperCase()]) {
        expect(admit(request({ authorization: `Bearer ${wrong}` })).problem?.status).toBe(401)
      }
    }
    expect(admit(request({})).problem?.status).toBe(401)
  })
})
