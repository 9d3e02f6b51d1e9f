import { expect, test } from "bun:test"
import { untrusted } from "../../src/sinks/Certificates.ts"

test("the advice about a server's certificate depends on its problem", () => {
  for (const [failure, todo] of [
    ["untrusted certificate", '"tls": { "ca": … }'],
    ["expired certificate", "renew it"],
    ["certificate of another host", 'correct the host in "servers"'],
  ] as const) {
    const said = untrusted(failure, "servers")
    expect(said).toContain(todo)
    expect(said.includes('"ca"')).toBe(failure === "untrusted certificate")
  }
})
