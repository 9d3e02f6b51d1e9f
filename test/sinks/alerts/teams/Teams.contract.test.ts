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
    // The answer of the retired connector.
    [[200, "1"], undefined],
    ...(
      [
        [429, "SinkThrottled"],
        [413, "DeliveryRejected"],
        [403, "SinkMisconfigured"],
        [502, "DeliveryFailed"],
      ] as const
    ).map(
      ([code, tag]) =>
        [
          [
            200,
            `Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error ${code} with ContextId MS-CV=a.0.`,
          ],
          tag,
        ] as const,
    ),
    [[200, "<!DOCTYPE html><html><title>Sign in to your account</title></html>"], "SinkMisconfigured"],
    [[400, '{"error":{"code":"TriggerInputSchemaMismatch"}}'], "DeliveryRejected"],
    [[400, '{"error":{"code":"WorkflowTriggerIsNotEnabled"}}'], "SinkMisconfigured"],
    [[401, '{"error":{"code":"DirectApiAuthorizationRequired"}}'], "SinkMisconfigured"],
    [[404, '{"error":{"code":"WorkflowNotFound"}}'], "SinkMisconfigured"],
    [[413, ""], "DeliveryRejected"],
    [[429, "", { "retry-after": "30" }], "SinkThrottled"],
    [[502, ""], "DeliveryFailed"],
  ],
})
