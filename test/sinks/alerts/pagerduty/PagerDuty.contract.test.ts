import { alertContract } from "../alertContract.ts"
import { pagerduty, routingKey } from "./pagerdutyService.ts"

alertContract({
  type: "pagerduty",
  service: pagerduty,
  config: { routingKey },
  wrong: [
    [400, '{"errors":["Length of \'routing_key\' is incorrect"]}', /routingKey/],
    [200, "<html>", /web page/],
  ],
  documented: [
    [[202, '{"status":"success"}'], undefined],
    [[200, "<html>welcome to the wifi</html>"], "SinkMisconfigured"],
    [[400, '{"status":"invalid event","errors":["\'payload.summary\' is missing or blank"]}'], "DeliveryRejected"],
    [[400, '{"errors":["Length of \'routing_key\' is incorrect (should be 32 characters)"]}'], "SinkMisconfigured"],
    [[413, ""], "DeliveryRejected"],
    [[429, ""], "SinkThrottled"],
    [[500, ""], "DeliveryFailed"],
    [[503, ""], "DeliveryFailed"],
  ],
})
