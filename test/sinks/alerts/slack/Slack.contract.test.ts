import { expect, test } from "bun:test"
import { meaning } from "../../../../src/sinks/alerts/slack/Slack.ts"
import { alertContract } from "../alertContract.ts"
import { slack } from "./slackService.ts"

test("only `ok` from Slack itself is success", () => {
  const of = (text: string) => meaning(200, () => text, "https://hooks.slack.com")?.verdict
  expect(["ok", '{"ok":true}', "", "accepted"].map(of)).toEqual(["delivered", "delivered", "retry", "retry"])
})

alertContract({
  type: "slack",
  service: slack,
  wrong: [
    [404, "no_service", /make another/],
    [403, "action_prohibited", /administrator/],
    [410, "channel_is_archived", /channel/],
  ],
  documented: [
    [[200, "ok"], undefined],
    [[200, "ok\n"], undefined],
    [[200, "invalid_payload"], "DeliveryRejected"],
    [[200, "no_service"], "SinkMisconfigured"],
    [[200, "<html>welcome to the wifi</html>"], "SinkMisconfigured"],
    // Workflows of Slack, Rocket.Chat, Zulip, Mattermost, and services that give no reason.
    [[200, '{"ok":true}'], undefined],
    [[200, '{"ok":false,"error":"no_service"}'], "SinkMisconfigured"],
    [[200, '{"ok":false,"error":"something new"}'], "DeliveryRejected"],
    [[200, '{"success":true}'], undefined],
    [[200, '{"success":false,"error":"Invalid integration id or token provided."}'], "SinkMisconfigured"],
    [[400, '{"success":false,"error":"invalid_payload"}'], "DeliveryRejected"],
    [[200, '{"result":"success","msg":"","ignored_parameters_unsupported":["blocks"]}'], undefined],
    [[200, ""], undefined],
    [[204, ""], undefined],
    [[200, "Message accepted"], undefined],
    [[200, "Failed to handle the payload"], "DeliveryFailed"],
    [[400, "invalid_payload"], "DeliveryRejected"],
    [[400, "invalid_blocks"], "DeliveryRejected"],
    [[400, "no_text"], "DeliveryRejected"],
    [[400, "msg_blocks_too_long"], "DeliveryRejected"],
    [[400, "user_not_found"], "SinkMisconfigured"],
    [[403, "action_prohibited"], "SinkMisconfigured"],
    [[403, "invalid_token"], "SinkMisconfigured"],
    [[404, "channel_not_found"], "SinkMisconfigured"],
    [[404, "no_service"], "SinkMisconfigured"],
    [[404, "no_team"], "SinkMisconfigured"],
    [[410, "channel_is_archived"], "SinkMisconfigured"],
    [[429, "rate_limited", { "retry-after": "30" }], "SinkThrottled"],
    [[500, "rollup_error"], "DeliveryFailed"],
    [[400, "something new"], "DeliveryRejected"],
  ],
})
