import { expect, test } from "bun:test"
import { refusalLine } from "../../../src/cli/commands/tap.ts"
import { painted } from "../../../src/cli/support/output.ts"

test("tap marks a refused request, with its reason, its subject and the id in its answer", () => {
  const refusal = {
    at: 1_000,
    webhook: "",
    refused: "unknownPath",
    status: 404,
    what: "no webhook has this path",
    detail: "/hooks/schedulng\u202e",
    requestId: "abc-1",
    from: "203.0.113.7",
  } as const
  expect(refusalLine(refusal, painted(false))).toBe(
    "1970-01-01T00:00:01.000Z  refused 404  no webhook has this path: /hooks/schedulng\ufffd  203.0.113.7  abc-1",
  )
  const signed = { ...refusal, webhook: "scheduling", refused: "signatureMismatch", status: 401, detail: "" } as const
  expect(refusalLine({ ...signed, what: "the signature does not match" }, painted(true))).toContain(
    "\u001b[33mrefused 401\u001b[0m  the signature does not match  scheduling  ",
  )
})
