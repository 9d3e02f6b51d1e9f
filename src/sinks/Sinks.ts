/**
 * The sinks there are. The only file that names them: a new one is a line here.
 */

import { Discord } from "./alerts/discord/Discord.ts"
import { PagerDuty } from "./alerts/pagerduty/PagerDuty.ts"
import { Slack } from "./alerts/slack/Slack.ts"
import { Teams } from "./alerts/teams/Teams.ts"
import { Console } from "./console/Console.ts"
import { File } from "./file/File.ts"
import { Http } from "./http/Http.ts"
import { Kafka } from "./kafka/Kafka.ts"
import type { SinkType } from "./Sink.ts"
import { Sns } from "./sns/Sns.ts"

/** A type whose config only its own schema knows: what comes out of `config` is what goes into `open`. */
export type AnySinkType = SinkType<unknown>

const erase = <Config>({ preview, composes, resolves, ...type }: SinkType<Config>): AnySinkType => ({
  ...type,
  open: (name, config, group) => type.open(name, config as Config, group),
  ...(preview && { preview: (config, batch, group) => preview(config as Config, batch, group) }),
  ...(composes && { composes: (config) => composes(config as Config) }),
  ...(resolves && { resolves: (config) => resolves(config as Config) }),
})

export const sinkTypes: Readonly<Record<string, AnySinkType>> = {
  http: erase(Http),
  file: erase(File),
  console: erase(Console),
  kafka: erase(Kafka),
  sns: erase(Sns),
  pagerduty: erase(PagerDuty),
  slack: erase(Slack),
  teams: erase(Teams),
  discord: erase(Discord),
}
