/** Keys as other programs name and place them. */
import { canary } from "../../cli/configs.ts"
import { config, file, http, kafka, route, sink, slack, type Theme } from "./Mistake.ts"

const email = (inside: string): string =>
  sink(
    `"type": "email", "server": "smtp.example.com:587", "from": "relay@example.com", "to": ["oncall@example.com"], ${inside}`,
  )
const pagerduty = (inside: string): string => sink(`"type": "pagerduty", ${inside}`)
const brokers = '"brokers": ["broker:9092"], "topic": "events"'

/** A key under its name in another program. */
const named = (make: (inside: string) => string, inside: string): string => make(inside.replace('"', '§"'))

export const foreign: Theme = {
  title: "Keys of other programs",
  mistakes: {
    "http: auth": named(http, `"auth": { "type": "basic", "username": "relay", "password": "${canary}" }`),
    "http: basic_auth": named(http, `"basic_auth": { "user": "relay", "password": "${canary}" }`),
    "http: the URL as uri": sink(`"type": "http", §"uri": "https://example.com/${canary}"`),
    "http: a key that the sink's former type had": named(http, '"api_version": "v8"'),
    "http: verb": named(http, '"verb": "POST"'),
    "http: batch_size": http('"format": "json", §"batch_size": 1000'),
    "http: compression": named(http, '"compression": "gzip"'),
    "http: encoding": named(http, '"encoding": { "codec": "json" }'),
    "http: tls.enabled": http('"tls": { §"enabled": true }'),
    "http: tls.verify_certificate": http('"tls": { §"verify_certificate": false }'),
    "http: retries in a request": http('§"retry_attempts": 5'),
    "a health check": named(http, '"healthcheck": false'),
    "a buffer on disk": named(file, '"buffer": { "type": "disk", "max_size": 1049000000 }'),
    "inputs of a sink": named(file, '"inputs": ["scheduling"]'),
    "delivery.maxAttempts": file('"delivery": { §"maxAttempts": 3 }'),
    "delivery.retry.timeout": file('"delivery": { "retry": { §"timeout": "5 seconds" } }'),
    "delivery.concurrency": file('"delivery": { §"concurrency": 3 }'),
    "Kafka: bootstrap_servers": kafka('§"bootstrap_servers": "one:9092,two:9092", "topic": "events"'),
    "Kafka: tls.ca_file": kafka(`${brokers}, "tls": { §"ca_file": "ca.pem" }`),
    "Kafka: sasl.user": kafka(
      `${brokers}, "tls": {}, "sasl": { "mechanism": "PLAIN", §"user": "relay", "password": "${canary}" }`,
    ),
    "Kafka: sasl without a mechanism": kafka(
      `${brokers}, "tls": {}, §"sasl": { "username": "relay", "password": "${canary}" }`,
    ),
    "Kafka: the login beside sasl": kafka(`${brokers}, §"security_protocol": "SASL_SSL"`),
    "Slack: send_resolved": named(slack, '"send_resolved": true'),
    "Slack: api_url": sink(`"type": "slack", §"api_url": "https://hooks.slack.com/services/${canary}"`),
    "Slack: api_url_file": sink('"type": "slack", §"api_url_file": "/run/secrets/slack"'),
    "Slack: a token for the URL": sink(`"type": "slack", "url": §"xoxb-${canary}"`),
    "PagerDuty: service_key": pagerduty(`§"service_key": "${canary}"`),
    "PagerDuty: api_key": pagerduty(`§"api_key": "${canary}"`),
    "PagerDuty: service_key_file": pagerduty('§"service_key_file": "/run/secrets/pagerduty"'),
    "PagerDuty: a key of the REST API": pagerduty('"routingKey": §"e+23rschqsESqk9Q6_-g"'),
    "Email: bcc": named(email, '"bcc": ["archive@example.com"]'),
    "Email: send_resolved": named(email, '"send_resolved": true'),
    "Email: require_tls": named(email, '"require_tls": false'),
    "a route's matchers": named(route, '"matchers": ["severity = critical"]'),
    "a route that goes on": named(route, '"continue": true'),
    "a route within a route": named(route, '"routes": [{ "receiver": "audit" }]'),
    "a route that groups": route('§"group_by": ["type"]'),
    "a journal's URL without its type": config({ journal: `{ §"url": "postgres://relay:${canary}@db/relay" }` }),
    "a log level": config({ more: '§"log": { "level": "debug" }' }),
  },
}
