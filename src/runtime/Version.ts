/** The version of this relay, from `package.json`. */
import manifest from "../../package.json" with { type: "json" }

export const relayVersion: string = manifest.version
