/** Texts that are used literally, although the user probably meant something else. */
import { canary } from "../../cli/configs.ts"
import { config, file, http, kafka, sink, slack, type Theme, webhook } from "./Mistake.ts"

const brokers = '"brokers": ["broker:9092"]'
const body = (value: string): string => http(`"format": "template", "body": ${value}`)

export const literal: Theme = {
  title: "Texts that are used as they stand",
  mistakes: {
    "a field of JMESPath for a key": kafka(`${brokers}, "topic": "events", "key": §"data.object.id"`),
    "a JSON Pointer for a key": kafka(`${brokers}, "topic": "events", "key": §"/data/object/id"`),
    "a field's name for a key": file('"key": §"account_id"'),
    "a word for a key": file('"key": §"id"'),
    "an expression for a key": file('"key": §"join(\'-\', [data.object.id, account_id])"'),
    "a field in a body": body('{ "text": "failed", "client": §"$.data.object.client_id" }'),
    "a field in a detail": slack('"details": { "Account": §"event.account_id" }'),
    "a body that is JSON in a text": body(`§${JSON.stringify('{"text": "{{type}}"}')}`),
    "a field in single braces, with its path": http('"headers": { "x-object": §"{data.object.id}" }'),
    "a field of the event in single braces": slack('"summary": §"{ event.type } failed"'),
    "a placeholder with a dot in front and an index": file('"key": §"{{ .data.object.lines[0].id }}"'),
    "a placeholder with a filter": slack('"summary": §"{{ created_at | date: \'%Y-%m-%d\' }}"'),
    "a placeholder with a condition": slack('"summary": §"{{ if .account_id }}{{ .type }}{{ end }}"'),
    "a variable as a placeholder": kafka(`${brokers}, "topic": §"{{EVENTS_TOPIC}}"`),
    "a placeholder in a text that is not a template": sink(
      '"type": "pagerduty", "routingKey": "k", "source": §"{{ webhook }}"',
    ),
    "a placeholder in a file's path": sink('"type": "file", "path": §"./{{type}}.ndjson"'),
    "a date in a file's path": sink('"type": "file", "path": §"./events-%Y-%m-%d.ndjson"'),
    "a function in a reference": kafka(`${brokers}, "topic": "events", "clientId": §"\${! uuid_v4() }"`),
    "a field in a reference": body('{ "topic": §"${! meta(\'kafka_topic\') }" }'),
    "a variable as Caddy has it": webhook(
      `"path": §"{$HOOKS_PATH}", "secrets": [{ "name": "now", "value": "${canary}" }]`,
    ),
    "a variable as Caddy has it at run time": sink('"type": "file", "path": §"{env.DATA}/events.ndjson"'),
    "a variable without braces for a port": config({ listen: '§"127.0.0.1:$PORT"' }),
    "a secret's file in a header": http('"headers": { "authorization": §"Bearer /run/secrets/token" }'),
    "a secret store in a header": http('"headers": { "authorization": §"Bearer op://relay/api/token" }'),
    "a body by the name of its file": body('§"@body.json"'),
  },
}
