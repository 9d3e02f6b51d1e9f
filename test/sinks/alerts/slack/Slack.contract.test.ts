import { alertContract } from "../alertContract.ts"
import { slack } from "./slackService.ts"

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
    [[200, "<html>welcome to the wifi</html>"], "DeliveryFailed"],
    [[200, ""], "DeliveryFailed"],
    [[204, ""], "DeliveryFailed"],
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
