import { describe, expect, test } from "bun:test"
import * as Address from "../../src/config/Address.ts"

describe("an address", () => {
  test("is loopback only if no other machine can reach it", () => {
    const loopback = (host: string) => Address.isLoopback({ host })
    expect(["127.0.0.1", "127.255.0.9", "::1", "localhost"].every(loopback)).toBe(true)
    expect(
      ["0.0.0.0", "::", "*", "10.0.0.1", "127.0.0.1.example.com", "1270.0.0.1", "localhost.example"].some(loopback),
    ).toBe(false)
  })

  test("for all interfaces is reached on loopback of the same family", () => {
    const reached = (text: string) => {
      const address = Address.parse(text)
      return address && Address.format(Address.reachable(address))
    }
    expect(["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "[fe80::1]:80", "relay.example:80", "*:80"].map(reached)).toEqual([
      "127.0.0.1:80",
      "[::1]:80",
      "10.0.0.1:80",
      "[fe80::1]:80",
      "relay.example:80",
      "127.0.0.1:80",
    ])
  })
})
