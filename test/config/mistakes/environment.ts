/** The environment that a command runs in. */
import { canary } from "../../cli/configs.ts"
import { config, secret, sink, type Theme } from "./Mistake.ts"

const run = ["run"]

export const environment: Theme = {
  title: "The environment",
  mistakes: {
    "the check of certificates is off": { env: { NODE_TLS_REJECT_UNAUTHORIZED: "0" }, command: run },
    "the check of certificates is off, in words": {
      env: { NODE_TLS_REJECT_UNAUTHORIZED: "false" },
      command: run,
    },
    "requests are to be printed": { env: { BUN_CONFIG_VERBOSE_FETCH: "curl" }, command: run },
    "Deno is not to check certificates": {
      started: ["deno", "run", "--unsafely-ignore-certificate-errors", "src/main.ts"],
      command: run,
    },
    "run without the credentials of systemd": {
      config: secret('§"file:${CREDENTIALS_DIRECTORY}/scheduling"'),
      command: run,
    },
    "run with a credential of another name": {
      config: secret('§"file:${CREDENTIALS_DIRECTORY}/scheduling"'),
      env: { CREDENTIALS_DIRECTORY: "/run/credentials/relay.service" },
      command: run,
    },
    "run with an address that is none in a variable": {
      config: config({ listen: '§"${LISTEN}"' }),
      env: { LISTEN: "8080" },
      command: run,
    },
    "run with a URL that is none in a variable": {
      config: sink('"type": "slack", "url": §"${SLACK_URL}"'),
      env: { SLACK_URL: canary },
      command: run,
    },
    "run with a variable that is empty": {
      config: config({ admin: '{ "token": §"${ADMIN_TOKEN}" }' }),
      env: { ADMIN_TOKEN: "" },
      command: run,
    },
    "trigger without the secret": {
      config: secret('§"${SIGNING_SECRET}"'),
      command: ["trigger", "client.created"],
    },
    "status without the admin API's token": {
      config: config({ admin: '{ "listen": "127.0.0.1:2", "token": §"${ADMIN_TOKEN}" }' }),
      command: ["status"],
    },
    "test without the secrets": {
      config: config({ tests: '[{ "event": "client.created", "to": "audit" }]' }).replace(
        `"${canary}"`,
        '"${SIGNING_SECRET}"',
      ),
      command: ["test"],
    },
    "journal check with a path that is not set": {
      config: config({ journal: '{ "path": §"${STATE_DIRECTORY}/journal.db" }' }),
      command: ["journal", "check"],
    },
  },
}
