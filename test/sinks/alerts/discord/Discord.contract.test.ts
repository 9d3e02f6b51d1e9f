import { alertContract } from "../alertContract.ts"
import { discord } from "./discordService.ts"

alertContract({
  type: "discord",
  service: discord,
  wrong: [
    [404, '{"code":10015}', /webhook/],
    [401, '{"code":50027}', /token/],
  ],
  documented: [
    [[204, ""], undefined],
    [[200, '{"id":"1"}'], undefined],
    [[400, '{"code":50006,"message":"Cannot send an empty message"}'], "DeliveryRejected"],
    [[401, '{"code":50027,"message":"Invalid Webhook Token"}'], "SinkMisconfigured"],
    [[404, '{"code":10015,"message":"Unknown Webhook"}'], "SinkMisconfigured"],
    [[429, '{"message":"You are being rate limited.","retry_after":0.4,"global":false}'], "SinkThrottled"],
    [[500, ""], "DeliveryFailed"],
  ],
})
