/**
 * The config of a newcomer's first minute: what `relay run` uses where there is
 * no file, and what `relay init` writes.
 *
 * It is `relay.config.json` of the project, letter by letter, which a test
 * holds it to. It stands here as text because a file that carries comments
 * can't be imported as JSON by every tool that reads this code.
 */
export const embedded = `// The relay's config: JSON, with comments and trailing commas. It works as it
// is: it listens on this machine only, and writes what it receives to ./data.
// config/README.md explains every key.
{
  "$schema": "./config/relay.schema.json",

  // Where deliveries are received, and where \`relay status\` and its kin ask.
  "listen": "127.0.0.1:8080",
  "admin": { "listen": "127.0.0.1:9080" },

  // Accepted events stand here until every sink has them, and a week longer.
  "journal": { "path": "./data/journal.db", "retention": "7 days", "maxSize": "10 GiB" },

  "webhooks": {
    "scheduling": {
      "path": "/hooks/scheduling",
      // A secret that everybody knows, for trying things out: the relay refuses
      // it when it listens on any other address. Put the signing secret of your
      // webhook in a file and write "file:/path/to/it" here, or use a variable.
      "secrets": [{ "name": "development", "value": "relay-development-secret" }],
    },
  },

  // Where events go. \`relay schema\` and config/README.md list the types.
  "sinks": {
    "console": { "type": "console" },
    "audit": { "type": "file", "path": "./data/events.ndjson" },
    "failures": { "type": "file", "path": "./data/failures.ndjson" },
  },

  // Which events go where. Every route that matches applies, and an event
  // reaches a sink once. \`*\` stays within a segment, \`**\` matches everything.
  "routes": [
    { "name": "everything", "match": "**", "to": ["audit", "console"] },
    {
      "name": "meeting failures",
      "match": ["appointment.meeting.*_failed", "connected_account.refresh_failed"],
      "to": ["failures"],
    },
  ],

  // \`relay test\` checks that events still go where they should.
  "tests": [
    { "event": "appointment.created", "to": ["audit", "console"] },
    { "event": "appointment.meeting.create_failed", "to": ["audit", "console", "failures"] },
  ],
}
`
