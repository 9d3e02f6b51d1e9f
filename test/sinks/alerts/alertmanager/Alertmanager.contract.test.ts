import { alertContract } from "../alertContract.ts"
import { alertmanager } from "./alertmanagerService.ts"

alertContract({
  type: "alertmanager",
  service: alertmanager,
  credentials: "headers",
  wrong: [
    [404, '{"code":404,"message":"path /api/v2/alert was not found"}', /must end in \/api\/v2\/alerts/],
    [405, "Method Not Allowed", /must end in/],
    [410, '{"status":"deprecated","error":"The Alertmanager v1 API was deprecated"}', /must end in/],
    [401, "Unauthorized", /"headers"/],
  ],
  documented: [
    [[200, ""], undefined],
    [[200, "<html>welcome to the wifi</html>"], "SinkMisconfigured"],
    [[400, '"start time must be before end time"'], "DeliveryRejected"],
    [[422, '{"code":601,"message":"0.generatorURL in body must be of type uri"}'], "DeliveryRejected"],
    [[415, '{"code":415,"message":"unsupported media type"}'], "SinkMisconfigured"],
    [[429, ""], "SinkThrottled"],
    [[500, '"context canceled"'], "DeliveryFailed"],
    [[503, ""], "DeliveryFailed"],
  ],
})
