/** Keys as other programs name and place them. */
import { canary } from "../../cli/configs.ts"
import { config, file, http, kafka, type Mistake, route, sink, slack, type Theme } from "./Mistake.ts"

const email = (inside: string): string =>
  sink(
    `"type": "email", "server": "smtp.example.com:587", "from": "relay@example.com", "to": ["oncall@example.com"], ${inside}`,
  )
const pagerduty = (inside: string): string => sink(`"type": "pagerduty", ${inside}`)
const brokers = '"brokers": ["broker:9092"], "topic": "events"'

/** A key under the name that another program has for it. */
const named = (name: string, make: (inside: string) => string, inside: string): Mistake => ({
  name,
  config: make(inside.replace('"', '§"')),
})

export const foreign: Theme = {
  title: "Keys of other programs",
  mistakes: [
    named("http: auth", http, `"auth": { "type": "basic", "username": "relay", "password": "${canary}" }`),
    named("http: basic_auth", http, `"basic_auth": { "user": "relay", "password": "${canary}" }`),
    { name: "http: the URL as uri", config: sink(`"type": "http", §"uri": "https://example.com/${canary}"`) },
    named("http: a key that the sink's former type had", http, '"api_version": "v8"'),
    named("http: verb", http, '"verb": "POST"'),
    { name: "http: batch_size", config: http('"format": "json", §"batch_size": 1000') },
    named("http: compression", http, '"compression": "gzip"'),
    named("http: encoding", http, '"encoding": { "codec": "json" }'),
    { name: "http: tls.enabled", config: http('"tls": { §"enabled": true }') },
    { name: "http: tls.verify_certificate", config: http('"tls": { §"verify_certificate": false }') },
    { name: "http: retries in a request", config: http('§"retry_attempts": 5') },
    named("a health check", http, '"healthcheck": false'),
    named("a buffer on disk", file, '"buffer": { "type": "disk", "max_size": 1049000000 }'),
    named("inputs of a sink", file, '"inputs": ["scheduling"]'),
    { name: "delivery.maxAttempts", config: file('"delivery": { §"maxAttempts": 3 }') },
    { name: "delivery.retry.timeout", config: file('"delivery": { "retry": { §"timeout": "5 seconds" } }') },
    { name: "delivery.concurrency", config: file('"delivery": { §"concurrency": 3 }') },
    { name: "Kafka: bootstrap_servers", config: kafka('§"bootstrap_servers": "one:9092,two:9092", "topic": "events"') },
    { name: "Kafka: tls.ca_file", config: kafka(`${brokers}, "tls": { §"ca_file": "ca.pem" }`) },
    {
      name: "Kafka: sasl.user",
      config: kafka(
        `${brokers}, "tls": {}, "sasl": { "mechanism": "PLAIN", §"user": "relay", "password": "${canary}" }`,
      ),
    },
    {
      name: "Kafka: sasl without a mechanism",
      config: kafka(`${brokers}, "tls": {}, §"sasl": { "username": "relay", "password": "${canary}" }`),
    },
    { name: "Kafka: the login beside sasl", config: kafka(`${brokers}, §"security_protocol": "SASL_SSL"`) },
    named("Slack: send_resolved", slack, '"send_resolved": true'),
    {
      name: "Slack: api_url",
      config: sink(`"type": "slack", §"api_url": "https://hooks.slack.com/services/${canary}"`),
    },
    { name: "Slack: api_url_file", config: sink('"type": "slack", §"api_url_file": "/run/secrets/slack"') },
    { name: "Slack: a token for the URL", config: sink(`"type": "slack", "url": §"xoxb-${canary}"`) },
    { name: "PagerDuty: service_key", config: pagerduty(`§"service_key": "${canary}"`) },
    { name: "PagerDuty: api_key", config: pagerduty(`§"api_key": "${canary}"`) },
    { name: "PagerDuty: service_key_file", config: pagerduty('§"service_key_file": "/run/secrets/pagerduty"') },
    { name: "PagerDuty: a key of the REST API", config: pagerduty('"routingKey": §"e+23rschqsESqk9Q6_-g"') },
    named("Email: bcc", email, '"bcc": ["archive@example.com"]'),
    named("Email: send_resolved", email, '"send_resolved": true'),
    named("Email: require_tls", email, '"require_tls": false'),
    named("a route's matchers", route, '"matchers": ["severity = critical"]'),
    named("a route that goes on", route, '"continue": true'),
    named("a route within a route", route, '"routes": [{ "receiver": "audit" }]'),
    { name: "a route that groups", config: route('§"group_by": ["type"]') },
    {
      name: "a journal's URL without its type",
      config: config({ journal: `{ §"url": "postgres://relay:${canary}@db/relay" }` }),
    },
    { name: "a log level", config: config({ more: '§"log": { "level": "debug" }' }) },
  ],
}
