import { expect, test } from "bun:test"
import { senderAddress } from "../../src/ingest/Bodies.ts"

const of = (value: string, header?: string) =>
  senderAddress(new Request("http://relay.example/", { headers: { "X-Forwarded-For": value } }), header)

test("the last address in the sender's address header counts, and a text that is not an address doesn't", () => {
  for (const [value, expected] of [
    ["198.51.100.7", "198.51.100.7"],
    ["10.0.0.1, 198.51.100.7", "198.51.100.7"],
    ["198.51.100.7:4711", "198.51.100.7"],
    ["203.0.113.1:51008, 198.51.100.7:4711", "198.51.100.7"],
    ["2001:db8::1", "2001:db8::1"],
    ["[2001:db8::1]:4711", "2001:db8::1"],
    ["[2001:db8::1]", "2001:db8::1"],
    ["198.51.100.7, unknown", ""],
    ["198.51.100.7 GET /", ""],
    ["", ""],
  ] as const) {
    expect([value, of(value, "x-forwarded-for")]).toEqual([value, expected])
  }
})

test("the header Forwarded names the sender in its last element, with or without quotes and a port", () => {
  for (const [value, expected] of [
    ["for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"],
    ["for=192.0.2.43, for=198.51.100.17", "198.51.100.17"],
    ['proto=https; For="[2001:db8:cafe::17]:4711"', "2001:db8:cafe::17"],
    ['for="192.0.2.43:47011"', "192.0.2.43"],
    ["for=unknown", ""],
    ['for="_gazonk"', ""],
    ["by=203.0.113.43", ""],
    ["198.51.100.7", ""],
  ] as const) {
    const request = new Request("http://relay.example/", { headers: { Forwarded: value } })
    expect([value, senderAddress(request, "forwarded")]).toEqual([value, expected])
  }
})

test("no header is read for the sender's address unless the config names one", () => {
  expect(of("198.51.100.7")).toBe("")
})
