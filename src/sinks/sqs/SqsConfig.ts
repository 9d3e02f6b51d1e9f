/** The config of an SQS sink. */
import { Schema } from "effect"
import { text } from "../../config/schema/Keys.ts"
import * as AwsConfig from "../aws/AwsConfig.ts"

const queueUrl = /^https?:\/\/[^/?#@\s]+\/\d{12}\/[A-Za-z0-9_-]{1,80}(\.fifo)?$/i

/** The region in a host of AWS: `sqs.eu-west-1.amazonaws.com`, that of an interface endpoint, the older `eu-west-1.queue.amazonaws.com`. */
const regional =
  /(?:(?:^|\.)sqs(?:-fips)?\.([a-z]+(?:-[a-z]+)+-\d+)|^([a-z]+(?:-[a-z]+)+-\d+)\.queue)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)$/

/** The region that a queue's URL says; `undefined` where it isn't AWS's own. */
export const regionOf = (url: string): string | undefined => {
  const [, one, older] = regional.exec(new URL(url).hostname) ?? []
  return one ?? older
}

export const SqsConfig = Schema.Struct({
  queueUrl: Schema.String.annotate({
    description: "The queue; one whose name ends in `.fifo` keeps order by `key`",
    examples: ["https://sqs.eu-west-1.amazonaws.com/123456789012/events"],
    // One that is written wrong may hold a password.
    shown: false,
  }).check(
    Schema.makeFilter(
      (url: string) =>
        (queueUrl.test(url) && URL.canParse(url)) ||
        'this is no URL of a queue: write it as in "https://sqs.eu-west-1.amazonaws.com/123456789012/events", without a user',
      { expected: "the URL of a queue", toJsonSchema: () => ({ pattern: "^[Hh][Tt][Tt][Pp][Ss]?://" }) },
    ),
  ),
  format: AwsConfig.format,
  key: AwsConfig.key("queue"),
  region: Schema.optionalKey(text("The region to sign for, where the URL does not say it")),
  ...AwsConfig.identityKeys,
  batch: AwsConfig.batchOf("1 MiB"),
}).check(
  AwsConfig.oneIdentity,
  Schema.makeFilter(({ queueUrl, region }) => {
    const own = regionOf(queueUrl)
    if (own !== undefined && region !== undefined && region !== own) {
      return { path: ["region"], issue: `AWS has this queue in ${own} and nowhere else: take "region" out` }
    }
    return own === undefined && region === undefined
      ? { path: ["region"], issue: 'the queue\'s URL does not say its region: add "region", as in "eu-west-1"' }
      : undefined
  }),
)
export type SqsConfig = typeof SqsConfig.Type
