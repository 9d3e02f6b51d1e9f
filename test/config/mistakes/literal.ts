/** Texts that are used as they stand, though something else was probably meant. */
import { canary } from "../../cli/configs.ts"
import { config, file, http, kafka, sink, slack, type Theme, webhook } from "./Mistake.ts"

const brokers = '"brokers": ["broker:9092"]'
const body = (value: string): string => http(`"format": "template", "body": ${value}`)

export const literal: Theme = {
  title: "Texts that are used as they stand",
  mistakes: [
    { name: "a field of JMESPath for a key", config: kafka(`${brokers}, "topic": "events", "key": §"data.object.id"`) },
    { name: "a JSON Pointer for a key", config: kafka(`${brokers}, "topic": "events", "key": §"/data/object/id"`) },
    { name: "a field's name for a key", config: file('"key": §"account_id"') },
    { name: "a word for a key", config: file('"key": §"id"') },
    { name: "an expression for a key", config: file('"key": §"join(\'-\', [data.object.id, account_id])"') },
    { name: "a field in a body", config: body('{ "text": "failed", "client": §"$.data.object.client_id" }') },
    { name: "a field in a detail", config: slack('"details": { "Account": §"event.account_id" }') },
    { name: "a body that is JSON in a text", config: body(`§${JSON.stringify('{"text": "{{type}}"}')}`) },
    { name: "a field in single braces, with its path", config: http('"headers": { "x-object": §"{data.object.id}" }') },
    { name: "a field of the event in single braces", config: slack('"summary": §"{ event.type } failed"') },
    {
      name: "a placeholder with a dot in front and an index",
      config: file('"key": §"{{ .data.object.lines[0].id }}"'),
    },
    { name: "a placeholder with a filter", config: slack('"summary": §"{{ created_at | date: \'%Y-%m-%d\' }}"') },
    { name: "a placeholder with a condition", config: slack('"summary": §"{{ if .account_id }}{{ .type }}{{ end }}"') },
    { name: "a variable as a placeholder", config: kafka(`${brokers}, "topic": §"{{EVENTS_TOPIC}}"`) },
    {
      name: "a placeholder in a text that is not a template",
      config: sink('"type": "pagerduty", "routingKey": "k", "source": §"{{ webhook }}"'),
    },
    { name: "a placeholder in a file's path", config: sink('"type": "file", "path": §"./{{type}}.ndjson"') },
    { name: "a date in a file's path", config: sink('"type": "file", "path": §"./events-%Y-%m-%d.ndjson"') },
    {
      name: "a function in a reference",
      config: kafka(`${brokers}, "topic": "events", "clientId": §"\${! uuid_v4() }"`),
    },
    { name: "a field in a reference", config: body('{ "topic": §"${! meta(\'kafka_topic\') }" }') },
    {
      name: "a variable as Caddy has it",
      config: webhook(`"path": §"{$HOOKS_PATH}", "secrets": [{ "name": "now", "value": "${canary}" }]`),
    },
    {
      name: "a variable as Caddy has it at run time",
      config: sink('"type": "file", "path": §"{env.DATA}/events.ndjson"'),
    },
    { name: "a variable without braces for a port", config: config({ listen: '§"127.0.0.1:$PORT"' }) },
    {
      name: "a secret's file in a header",
      config: http('"headers": { "authorization": §"Bearer /run/secrets/token" }'),
    },
    {
      name: "a secret store in a header",
      config: http('"headers": { "authorization": §"Bearer op://relay/api/token" }'),
    },
    { name: "a body by the name of its file", config: body('§"@body.json"') },
  ],
}
