/** The types of sinks, by the name that a config gives them; the only file that names them. A new one is a line here. */

export { Discord as discord } from "./alerts/discord/Discord.ts"
export { PagerDuty as pagerduty } from "./alerts/pagerduty/PagerDuty.ts"
export { Slack as slack } from "./alerts/slack/Slack.ts"
export { Teams as teams } from "./alerts/teams/Teams.ts"
export { Console as console } from "./console/Console.ts"
export { Email as email } from "./email/Email.ts"
export { EventBridge as eventbridge } from "./eventbridge/EventBridge.ts"
export { File as file } from "./file/File.ts"
export { Http as http } from "./http/Http.ts"
export { Kafka as kafka } from "./kafka/Kafka.ts"
export { Sns as sns } from "./sns/Sns.ts"
export { Sqs as sqs } from "./sqs/Sqs.ts"
