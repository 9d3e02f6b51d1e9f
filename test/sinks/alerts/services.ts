/** The alert services of this machine, by the type of their sink. */
import { alertmanager } from "./alertmanager/alertmanagerService.ts"
import { discord } from "./discord/discordService.ts"
import { pagerduty, routingKey } from "./pagerduty/pagerdutyService.ts"
import { slack } from "./slack/slackService.ts"
import { teams } from "./teams/teamsService.ts"

export const services = { pagerduty, slack, teams, discord, alertmanager } as const
export type Name = keyof typeof services
export const names = Object.keys(services) as ReadonlyArray<Name>

/** A config of each type, complete except for its URL. */
export const own: Readonly<Record<Name, object>> = {
  pagerduty: { routingKey },
  slack: {},
  teams: {},
  discord: {},
  alertmanager: {},
}
