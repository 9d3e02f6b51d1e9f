import { expect, test } from "bun:test"
import { orderKey } from "../../src/formats/Template.ts"
import { bytes, entry, envelope } from "../sinks/samples.ts"

test("digests by two fields differ for accounts whose joined values are the same", () => {
  const of = (accountId: string, id: string) =>
    entry(1, { accountId, body: bytes(JSON.stringify({ ...envelope(1, { id }), account_id: accountId })) })
  const keyOf = orderKey({ key: "{{account_id}}/{{/data/object/id}}", alert: { sends: "digest", resolves: false } })
  expect(keyOf(of("a/b", "c"))).not.toBe(keyOf(of("a", "b/c")))
  expect(keyOf(of("a", "b"))).toBe("a/b")
})
