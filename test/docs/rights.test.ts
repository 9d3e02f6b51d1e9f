/** The page on least rights lists exactly the rights that the code needs. */
import { describe, expect, test } from "bun:test"
import { readPage } from "../lib/docs.ts"

const page = readPage("docs/reference/rights.md")

interface Policy {
  readonly Statement: ReadonlyArray<{ readonly Action: ReadonlyArray<string>; readonly Resource: string }>
}

/** The actions that an error of the code advises to grant. */
const advised = (file: string, pattern: RegExp): ReadonlyArray<string> =>
  [...(pattern.exec(readPage(file))?.[1] ?? "").matchAll(/\w+:\w+/g)].map(([action]) => action)

describe("the page on least rights", () => {
  test("has a policy for AWS with the rights that the sinks advise", () => {
    const policy = JSON.parse(/^```json\n(.*?)^```/ms.exec(page)?.[1] ?? "") as Policy
    expect(policy.Statement.map(({ Action }) => Action)).toEqual([
      advised("src/sinks/sns/Sns.ts", /rights: "(.*?)"/),
      advised("src/sinks/sqs/Sqs.ts", /rights: "(.*?)"/),
      advised("src/sinks/eventbridge/EventBridge.ts", /rights: "(.*?)"/),
      ...advised("src/sinks/s3/S3.ts", /rights: "(.*?)"/).map((action) => [action]),
      advised("src/sinks/aws/AwsErrors.ts", /KMSAccessDenied: .*? grant (.*?) on it/),
    ])
    for (const { Action, Resource } of policy.Statement) {
      // The names of objects aren't known in advance.
      expect(Resource.replace(/^(arn:aws:s3:::[a-z-]+\/)\*$/, "$1")).not.toContain("*")
      for (const action of Action) expect(Resource.split(":")[2]).toBe(action.split(":")[0])
    }
  })

  test("names each right of Kafka that an error of the broker is about", () => {
    const errors = readPage("src/sinks/kafka/KafkaErrors.ts")
    expect(errors).toContain("the user lacks Write (or Describe) on the topic")
    expect(errors).toContain("the user lacks IdempotentWrite on the cluster")
    for (const right of ["Write, which includes Describe", "Create", "IdempotentWrite"])
      expect(page).toContain(`\n| ${right} | `)
  })
})
