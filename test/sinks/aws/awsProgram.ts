/** Helpers for the tests of the whole program with AWS sinks. */
import { Effect } from "effect"
import type { Topic } from "../../parts/Queues.ts"

/** Hides the credentials of the machine that runs the tests: its metadata service and its user's files. */
export const nothing = {
  AWS_EC2_METADATA_DISABLED: "true",
  AWS_CONFIG_FILE: "none",
  AWS_SHARED_CREDENTIALS_FILE: "none",
}

type Received = Pick<Topic, "received">

/** The bodies of the messages. */
export const bodiesOf =
  ({ received }: Received) =>
  async ({ length }: ReadonlyArray<string>): Promise<ReadonlyArray<string>> =>
    (await Effect.runPromise(received(length))).map(({ body }) => body)

/** The signed bodies of messages that are CloudEvents. */
export const dataOf = (target: Received) => async (sent: ReadonlyArray<string>) =>
  (await bodiesOf(target)(sent)).map((body) => JSON.stringify(JSON.parse(body).data))

/** Returns the types of messages once there are `count`. */
export const typesOf = async ({ received }: Received, count: number) =>
  (await Effect.runPromise(received(count))).map(({ attributes }) => attributes.type).toSorted()
