import { alertContract } from "../alertContract.ts"
import { teams } from "./teamsService.ts"

alertContract({
  type: "teams",
  service: teams,
  wrong: [
    [401, "", /URL/],
    [404, "", /no such workflow/],
    [400, '{"error":{"code":"WorkflowTriggerIsNotEnabled"}}', /turned off/],
  ],
  documented: [
    [[202, ""], undefined],
    [[400, '{"error":{"code":"TriggerInputSchemaMismatch"}}'], "DeliveryRejected"],
    [[400, '{"error":{"code":"WorkflowTriggerIsNotEnabled"}}'], "SinkMisconfigured"],
    [[401, '{"error":{"code":"DirectApiAuthorizationRequired"}}'], "SinkMisconfigured"],
    [[404, '{"error":{"code":"WorkflowNotFound"}}'], "SinkMisconfigured"],
    [[413, ""], "DeliveryRejected"],
    [[429, "", { "retry-after": "30" }], "SinkThrottled"],
    [[502, ""], "DeliveryFailed"],
  ],
})
