/** The config of an EventBridge sink. */
import { Effect, Schema } from "effect"
import { oneOf, templateOr } from "../../config/schema/Keys.ts"
import * as AwsConfig from "../aws/AwsConfig.ts"

export const EventBridgeConfig = Schema.Struct({
  eventBusArn: Schema.String.annotate({
    description: "The event bus",
    examples: ["arn:aws:events:eu-west-1:123456789012:event-bus/default"],
    shown: true,
  }).check(
    Schema.isPattern(/^arn:aws[a-z-]*:events:[a-z0-9-]+:\d{12}:event-bus\/[/._A-Za-z0-9-]{1,256}$/u, {
      message:
        'this is no ARN of an event bus: write it as in "arn:aws:events:eu-west-1:123456789012:event-bus/default"',
    }),
  ),
  source: Schema.String.annotate({
    description: "The source of every event, for rules to match",
    default: "relay",
    examples: ["com.example.scheduling"],
    shown: true,
  })
    .check(
      Schema.isPattern(/^(?!aws\.)[^\s{}]{1,256}$/u, {
        message: 'this is no source: it has no spaces and no placeholders, and "aws." is what AWS begins its own with',
      }),
    )
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("relay"))),
  detailType: templateOr("A template: the detail type, cut to 128 characters", "{{type}}"),
  resources: Schema.Array(Schema.String.annotate({ template: true, shown: true }))
    .annotate({
      description: "Templates of the resources that an event concerns; empty ones are left out",
      default: [],
      examples: [["account/{{account_id}}"]],
    })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed([]))),
  format: oneOf(
    "Content of the detail. `raw`: the envelope. `cloudevents`: one JSON document, CloudEvents 1.0",
    ["raw", "cloudevents"],
    "raw",
  ),
  endpoint: AwsConfig.endpoint("EventBridge"),
  ...AwsConfig.identityKeys,
  batch: AwsConfig.batchOf("1 MiB"),
}).check(AwsConfig.oneIdentity)
export type EventBridgeConfig = typeof EventBridgeConfig.Type
