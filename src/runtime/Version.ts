/** The version of this relay, which `package.json` has. */
import manifest from "../../package.json" with { type: "json" }

export const relayVersion: string = manifest.version
