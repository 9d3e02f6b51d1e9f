/** Public reports of people who deliver events. */
import type { Catalogue } from "./Report.ts"

const github = (at: string) => `https://github.com/${at}`
const slack = "test/sinks/alerts/slack/Slack.contract.test.ts"
const teams = "test/sinks/alerts/teams/Teams.contract.test.ts"
const email = "test/sinks/email/Email.test.ts"
const replies = "test/sinks/email/EmailErrors.test.ts"
const ahead = "test/sinks/http/Intermediary.test.ts"

export const catalogue: Catalogue = {
  title: "Reports about delivering events",
  reports: [
    {
      report: github("gogs/gogs/issues/3169"),
      symptom: 'Rocket.Chat answers `{"success":true}` instead of `ok`, and the delivered message counts as failed',
      verdict: "wrong",
      test: `${slack} > {"success":true}`,
    },
    {
      report: github("bluele/slack/pull/33"),
      symptom: "A server that is compatible with Slack answers 204 without a body, and the message is sent again",
      verdict: "wrong",
      test: `${slack} > [204, ""], undefined`,
    },
    {
      report: github("zulip/zulip/pull/31875"),
      symptom: "Zulip's answer has `result` instead of `ok`, so an alert is not resolved",
      verdict: "wrong",
      test: `${slack} > {"result":"success"`,
    },
    {
      report: github("fivetran/great_expectations/pull/5818"),
      symptom: "A wrong token is answered with 200 and `ok: false`, and nobody hears of it",
      verdict: "poor",
      test: `${slack} > {"ok":false,"error":"no_service"}`,
    },
    {
      report: github("MicrosoftDocs/msteams-docs/issues/7425"),
      symptom: "The Teams connector is throttled and answers 200, so messages are lost",
      verdict: "wrong",
      test: `${teams} > [429, "SinkThrottled"]`,
    },
    {
      report: github("MicrosoftDocs/msteams-docs/issues/1810"),
      symptom: "A card that is too large for Teams is answered with 200 and the words HTTP error 413",
      verdict: "wrong",
      test: `${teams} > [413, "DeliveryRejected"]`,
    },
    {
      report: github("MicrosoftDocs/msteams-docs/issues/10178"),
      symptom: "The connector of one tenant answers 200 with the words HTTP error 403",
      verdict: "wrong",
      test: `${teams} > [403, "SinkMisconfigured"]`,
    },
    {
      report: github("discord/discord-api-docs/issues/849"),
      symptom: "Cloudflare blocks a client in front of Discord: 403, which looks like a wrong webhook",
      verdict: "wrong",
      test: `${ahead} > Cloudflare blocks the client`,
    },
    {
      report: github("discord/discord-api-docs/issues/7040"),
      symptom: "Cloudflare limits the rate in front of Discord: error code 1015",
      verdict: "right",
      test: `${ahead} > Cloudflare limits the rate`,
    },
    {
      report: github("nodemailer/nodemailer/issues/1149"),
      symptom: "A mail server ends a session that is too old with 421, and the next mail fails with it",
      verdict: "poor",
      test: `${email} > gets the next one by another connection at once`,
    },
    {
      report: github("nodemailer/nodemailer/issues/1613"),
      symptom: "Outlook limits connections: 432 4.3.2 Concurrent connections limit exceeded",
      verdict: "poor",
      test: `${replies} > 432 4.3.2 Concurrent connections limit exceeded.`,
    },
    {
      report: github("bruceg/ezmlm-idx/issues/11"),
      symptom: "Gmail refuses each mail by the sender's DMARC policy, and each recipient counts as bounced",
      verdict: "wrong",
      test: `${replies} > 550-5.7.1 Unauthenticated email`,
    },
    {
      report: github("zone-eu/zone-mta/issues/434"),
      symptom: "Outlook refuses by DMARC with a code of its own, 5.7.509",
      verdict: "wrong",
      test: `${replies} > 550 5.7.509 Access denied`,
    },
    {
      report: github("postalserver/postal/issues/266"),
      symptom: "Gmail takes a mail for unsolicited: final for this mail, and not for the address",
      verdict: "right",
      test: `${replies} > likely unsolicited mail.`,
    },
    {
      report: github("ActiveCampaign/smtp-field-manual/issues/42"),
      symptom: "Outlook's queue quota of an organization is used up: 450 4.7.3",
      verdict: "poor",
      test: `${replies} > 450 4.7.3 Organization queue quota exceeded.`,
    },
    {
      report: github("sisimai/p5-sisimai/issues/312"),
      symptom: "Exchange Online refuses a recipient with 5.4.1, which looks like a fault of the network",
      verdict: "right",
      test: `${replies} > 550 5.4.1 Recipient address rejected`,
    },
    {
      report: github("rabbitmq/rabbitmq-delayed-message-exchange/issues/7"),
      symptom: "An x-delayed-message exchange returns each mandatory message, also those that it delivers",
      verdict: "wrong",
      test: "test/sinks/rabbitmq/RabbitMq.test.ts > a message that need not be mandatory is delivered",
    },
    {
      report: github("amqp-node/amqplib/issues/633"),
      symptom: "A queue is deleted while events come, and the publisher hears of no error",
      verdict: "wrong",
      test: "test/sinks/rabbitmq/RabbitMqProgram.test.ts > waits for a queue and a binding that are deleted",
    },
    {
      report: github("Xabaril/AspNetCore.Diagnostics.HealthChecks/issues/57"),
      symptom: "A compacted topic refuses messages without a key, as invalid",
      verdict: "wrong",
      test: "test/sinks/kafka/Kafka.test.ts > a compacted topic waits for a key in the config",
    },
    {
      report: github("logrotate/logrotate/issues/34"),
      symptom: "logrotate with `copytruncate` loses lines that are written during the copy",
      verdict: "poor",
      test: "test/sinks/file/File.test.ts > that was truncated from outside goes on from where it ends",
    },
  ],
}
