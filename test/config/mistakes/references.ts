/** Variables and files, and what is taken for one. */
import { canary } from "../../cli/configs.ts"
import { config, http, kafka, secret, sink, slack, type Theme } from "./Mistake.ts"

const strict = ["validate"]

export const references: Theme = {
  title: "Secrets, variables and files",
  mistakes: [
    { name: "a secret that is empty", config: secret('§""') },
    { name: "a variable that is set to nothing", config: secret('§"${EMPTY}"'), env: { EMPTY: "" } },
    { name: "a variable that is not set", config: secret('§"${SIGNING_SECRET}"'), command: strict },
    {
      name: "a variable that is not set, and a property of every object",
      config: secret('§"${constructor}"'),
      command: strict,
    },
    { name: "a variable that is not set in a key that allows it", config: secret('"${SIGNING_SECRET}"') },
    {
      name: "a variable whose name is nearly right",
      config: secret('§"${SIGNING_SECERT}"'),
      env: { SIGNING_SECRET: canary },
      command: strict,
    },
    { name: "a file that is not there", config: secret('§"file:secret"'), command: strict },
    {
      name: "a file in a directory of a variable that is not set",
      config: secret('§"file:${SECRETS_DIRECTORY}/secret"'),
      command: strict,
    },
    { name: "a file that is a directory", config: secret('§"file:secrets"'), files: { secrets: null } },
    {
      name: "a file that isn't text",
      config: secret('§"file:secret"'),
      files: { secret: new Uint8Array([0xff, 0xfe, 0]) },
    },
    { name: "a file that is empty", config: secret('§"file:secret"'), files: { secret: "\n" } },
    {
      name: "a file with a blank before its name",
      config: secret('§"file: secret"'),
      files: { secret: canary },
      command: strict,
    },
    { name: "a file below the home directory, as a shell has it", config: secret('§"file:~/secret"'), command: strict },
    { name: "a reference that is not closed", config: config({ listen: '§"${HOST:8080"' }) },
    { name: "a reference with a blank in it", config: config({ listen: '§"${MY HOST}:8080"' }) },
    { name: "a reference of a CI", config: secret('§"${{ secrets.SIGNING }}"') },
    { name: "a reference to an env object", config: secret('§"${env.SIGNING}"') },
    { name: "a variable without braces", config: secret('§"$SIGNING_SECRET"') },
    {
      name: "a variable without braces in a header",
      config: http('"headers": { "authorization": §"Bearer $API_TOKEN" }'),
    },
    { name: "a variable without braces in a path", config: sink('"type": "file", "path": §"$HOME/events.ndjson"') },
    { name: "a variable as on Windows", config: secret('§"%SIGNING_SECRET%"') },
    { name: "a variable as in a template", config: secret('§"{{ env.SIGNING_SECRET }}"') },
    {
      name: "a variable as in a template, in a header",
      config: http('"headers": { "authorization": §"Bearer {{ env.API_TOKEN }}" }'),
    },
    { name: "a variable by its prefix", config: secret('§"env:SIGNING_SECRET"') },
    { name: "a command of a shell", config: secret('§"$(cat /run/secret)"') },
    { name: "a file within a value", config: http('"headers": { "authorization": §"Bearer file:/run/token" }') },
    { name: "a file by its path alone", config: config({ admin: '{ "token": §"/run/secrets/token" }' }) },
    { name: "a secret from the docs", config: secret('§"<SIGNING_SECRET>"') },
    { name: "a secret that was to be replaced", config: secret('§"changeme"') },
    {
      name: "a secret with its name, as in a file of variables",
      config: secret('§"file:secret"'),
      files: { secret: `SIGNING_SECRET=${canary}\n` },
    },
    {
      name: "a secret with its name, as in a shell's script",
      config: secret('§"file:secret"'),
      files: { secret: `export SIGNING_SECRET="${canary}"\n` },
    },
    {
      name: "a secret in a JSON file",
      config: secret('§"file:secret"'),
      files: { secret: `{ "signing": "${canary}" }\n` },
    },
    {
      name: "a secret with a space of no width",
      config: secret('§"file:secret"'),
      files: { secret: `${canary}\u200b\n` },
    },
    {
      name: "a secret by its name in AWS",
      config: secret('§"arn:aws:secretsmanager:eu-west-1:123456789012:secret:relay"'),
    },
    { name: "a secret by its path in Vault", config: secret('§"vault:secret/data/relay#signing"') },
    { name: "a signature in place of the secret", config: secret('§"sha256=0123456789ABCDEF"') },
    { name: "a token with its scheme", config: config({ admin: `{ "token": §"Bearer ${canary}" }` }) },
    { name: "the receiver's URL in place of the secret", config: secret(`§"https://example.com/${canary}"`) },
    { name: "a secret with a blank at its end", config: secret(`§"${canary} "`) },
    {
      name: "a secret in a file with two line breaks",
      config: secret('§"file:secret"'),
      files: { secret: `${canary}\n\n` },
    },
    {
      name: "a secret in a variable with a line break",
      config: secret('§"${SIGNING_SECRET}"'),
      env: { SIGNING_SECRET: `${canary}\n` },
    },
    {
      name: "a secret in a variable with its quotes",
      config: secret('§"${SIGNING_SECRET}"'),
      env: { SIGNING_SECRET: `"${canary}"` },
    },
    {
      name: "a header's value with a line break in its file",
      config: http('"headers": { "authorization": §"file:token" }'),
      files: { token: `Bearer ${canary}\nx\n` },
    },
    {
      name: "a URL in a file that is none",
      config: sink('"type": "slack", "url": §"file:url"'),
      files: { url: `${canary}\n` },
    },
    {
      name: "a user and a password in a URL",
      config: sink(`"type": "http", "url": §"https://user:${canary}@example.com/"`),
    },
    {
      name: "a password in a broker's address",
      config: kafka(`"brokers": [§"user:${canary}@broker:9092"], "topic": "events"`),
    },
    { name: "a secret at the wrong key", config: config({ admin: `{ §"tokn": "${canary}" }` }) },
    { name: "a secret instead of a choice", config: slack('"order": §"${SECRET}"'), env: { SECRET: canary } },
    {
      name: "the development secret beyond this machine",
      config: `${config({ listen: '"0.0.0.0:8080"', tls: '{ "certificate": "c.pem", "key": "k.pem" }' }).replace(`"${canary}"`, '§"relay-development-secret"')}`,
    },
  ],
}
