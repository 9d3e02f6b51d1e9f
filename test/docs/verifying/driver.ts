/** Answers each line of its input with a line. The fields are in base64, and commas separate the secrets. */
import { join } from "node:path"
import { createInterface } from "node:readline"

type Verify = (secrets: ReadonlyArray<string>, ...rest: ReadonlyArray<string | Uint8Array>) => boolean

const text = (field = "") => Buffer.from(field, "base64").toString()

const { verifySender, verifyStandard } = (await import(join(process.argv[2] ?? "", "webhook.ts"))) as {
  readonly verifySender: Verify
  readonly verifyStandard: Verify
}
for await (const line of createInterface({ input: process.stdin })) {
  const [which, secrets = "", ...fields] = line.split("\t")
  const body = Buffer.from(fields.pop() ?? "", "base64")
  const verify = text(which) === "sender" ? verifySender : verifyStandard
  console.log(verify(secrets.split(",").map(text), ...fields.map(text), body))
}
