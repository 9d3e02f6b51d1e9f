/** Mistakes in references to variables and files, and texts that look like references. */
import { canary } from "../../cli/configs.ts"
import { config, http, kafka, secret, sink, slack, type Theme } from "./Mistake.ts"

const strict = ["validate"]

export const references: Theme = {
  title: "Secrets, variables and files",
  mistakes: {
    "a secret that is empty": secret('§""'),
    "a variable that is set to nothing": { config: secret('§"${EMPTY}"'), env: { EMPTY: "" } },
    "a variable that is not set": { config: secret('§"${SIGNING_SECRET}"'), command: strict },
    "a variable that is not set, and a property of every object": {
      config: secret('§"${constructor}"'),
      command: strict,
    },
    "a variable that is not set in a key that allows it": secret('"${SIGNING_SECRET}"'),
    "a variable whose name is nearly right": {
      config: secret('§"${SIGNING_SECERT}"'),
      env: { SIGNING_SECRET: canary },
      command: strict,
    },
    "a file that is not there": { config: secret('§"file:secret"'), command: strict },
    "a file in a directory of a variable that is not set": {
      config: secret('§"file:${SECRETS_DIRECTORY}/secret"'),
      command: strict,
    },
    "a file that is a directory": { config: secret('§"file:secrets"'), files: { secrets: null } },
    "a file that isn't text": {
      config: secret('§"file:secret"'),
      files: { secret: new Uint8Array([0xff, 0xfe, 0]) },
    },
    "a file that is empty": { config: secret('§"file:secret"'), files: { secret: "\n" } },
    "a file with a blank before its name": {
      config: secret('§"file: secret"'),
      files: { secret: canary },
      command: strict,
    },
    "a file below the home directory, as a shell has it": { config: secret('§"file:~/secret"'), command: strict },
    "a reference that is not closed": config({ listen: '§"${HOST:8080"' }),
    "a reference with a blank in it": config({ listen: '§"${MY HOST}:8080"' }),
    "a reference of a CI": secret('§"${{ secrets.SIGNING }}"'),
    "a reference to an env object": secret('§"${env.SIGNING}"'),
    "a variable without braces": secret('§"$SIGNING_SECRET"'),
    "a variable without braces in a header": http('"headers": { "authorization": §"Bearer $API_TOKEN" }'),
    "a variable without braces in a path": sink('"type": "file", "path": §"$HOME/events.ndjson"'),
    "a variable as on Windows": secret('§"%SIGNING_SECRET%"'),
    "a variable as in a template": secret('§"{{ env.SIGNING_SECRET }}"'),
    "a variable as in a template, in a header": http('"headers": { "authorization": §"Bearer {{ env.API_TOKEN }}" }'),
    "a variable by its prefix": secret('§"env:SIGNING_SECRET"'),
    "a command of a shell": secret('§"$(cat /run/secret)"'),
    "a file within a value": http('"headers": { "authorization": §"Bearer file:/run/token" }'),
    "a file by its path alone": config({ admin: '{ "token": §"/run/secrets/token" }' }),
    "a secret from the docs": secret('§"<SIGNING_SECRET>"'),
    "a secret that was to be replaced": secret('§"changeme"'),
    "a secret with its name, as in a file of variables": {
      config: secret('§"file:secret"'),
      files: { secret: `SIGNING_SECRET=${canary}\n` },
    },
    "a secret with its name, as in a shell's script": {
      config: secret('§"file:secret"'),
      files: { secret: `export SIGNING_SECRET="${canary}"\n` },
    },
    "a secret in a JSON file": {
      config: secret('§"file:secret"'),
      files: { secret: `{ "signing": "${canary}" }\n` },
    },
    "a secret with a space of no width": {
      config: secret('§"file:secret"'),
      files: { secret: `${canary}\u200b\n` },
    },
    "a secret by its name in AWS": secret('§"arn:aws:secretsmanager:eu-west-1:123456789012:secret:relay"'),
    "a secret by its path in Vault": secret('§"vault:secret/data/relay#signing"'),
    "a signature in place of the secret": secret('§"sha256=0123456789ABCDEF"'),
    "a token with its scheme": config({ admin: `{ "token": §"Bearer ${canary}" }` }),
    "the receiver's URL in place of the secret": secret(`§"https://example.com/${canary}"`),
    "a secret with a blank at its end": secret(`§"${canary} "`),
    "a secret in a file with two line breaks": {
      config: secret('§"file:secret"'),
      files: { secret: `${canary}\n\n` },
    },
    "a secret in a variable with a line break": {
      config: secret('§"${SIGNING_SECRET}"'),
      env: { SIGNING_SECRET: `${canary}\n` },
    },
    "a secret in a variable with its quotes": {
      config: secret('§"${SIGNING_SECRET}"'),
      env: { SIGNING_SECRET: `"${canary}"` },
    },
    "a header's value with a line break in its file": {
      config: http('"headers": { "authorization": §"file:token" }'),
      files: { token: `Bearer ${canary}\nx\n` },
    },
    "a URL in a file that is none": {
      config: sink('"type": "slack", "url": §"file:url"'),
      files: { url: `${canary}\n` },
    },
    "a user and a password in a URL": sink(`"type": "http", "url": §"https://user:${canary}@example.com/"`),
    "a password in a broker's address": kafka(`"brokers": [§"user:${canary}@broker:9092"], "topic": "events"`),
    "a secret at the wrong key": config({ admin: `{ §"tokn": "${canary}" }` }),
    "a secret instead of a choice": { config: slack('"order": §"${SECRET}"'), env: { SECRET: canary } },
    "the development secret beyond this machine": `${config({ listen: '"0.0.0.0:8080"', tls: '{ "certificate": "c.pem", "key": "k.pem" }' }).replace(`"${canary}"`, '§"relay-development-secret"')}`,
  },
}
