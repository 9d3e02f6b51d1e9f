/** Email sinks for tests, here or under the runtime that RELAY_UNDER names. */
import { Email } from "../../../src/sinks/email/Email.ts"
import { openThere } from "../thereSink.ts"

export const mailConfig = { from: "Relay <relay@example.com>", to: ["oncall@example.com"] }

/** TLS is off by default. */
export const openEmail = (more: () => Record<string, unknown>) =>
  openThere("email", Email, () => ({ ...mailConfig, security: "none", ...more() }))
