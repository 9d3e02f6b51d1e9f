/**
 * The sinks there are. The only file that names them: a new one is a line here.
 */
import { Console } from "./Console.ts"
import { Discord } from "./Discord.ts"
import { File } from "./File.ts"
import { Http } from "./Http.ts"
import { Kafka } from "./Kafka.ts"
import { PagerDuty } from "./PagerDuty.ts"
import type { SinkType } from "./Sink.ts"
import { Slack } from "./Slack.ts"
import { Sns } from "./Sns.ts"
import { Teams } from "./Teams.ts"

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
