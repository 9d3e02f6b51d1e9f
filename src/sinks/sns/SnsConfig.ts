/** The config of an SNS sink. */
import { Schema } from "effect"
import { text } from "../../config/schema/Keys.ts"
import * as AwsConfig from "../aws/AwsConfig.ts"

export const SnsConfig = Schema.Struct({
  topicArn: Schema.String.annotate({
    description: "The topic; one whose name ends in `.fifo` keeps order by `key`",
    examples: ["arn:aws:sns:eu-west-1:123456789012:events"],
    shown: true,
  }).check(
    Schema.isPattern(/^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?$/u, {
      message: 'this is no ARN of a topic: write it as in "arn:aws:sns:eu-west-1:123456789012:events"',
    }),
  ),
  format: AwsConfig.format,
  key: AwsConfig.key("topic"),
  region: Schema.optionalKey(text("The region to sign for; by default the topic's")),
  endpoint: AwsConfig.endpoint("SNS"),
  ...AwsConfig.identityKeys,
  batch: AwsConfig.batchOf("256 KiB"),
}).check(
  AwsConfig.oneIdentity,
  Schema.makeFilter(({ topicArn, region, endpoint }) => {
    const own = topicArn.split(":")[3]
    return region === undefined || region === own || endpoint !== undefined
      ? undefined
      : { path: ["region"], issue: `AWS has this topic in ${own} and nowhere else: take "region" out` }
  }),
)
export type SnsConfig = typeof SnsConfig.Type
