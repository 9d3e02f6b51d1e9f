/** Kafka, AWS, NATS, RabbitMQ, email and alert services. */
import { canary } from "../../cli/configs.ts"
import { kafka, sink, slack, type Theme } from "./Mistake.ts"

const brokers = '"brokers": ["broker:9092"]'
const sns = (inside: string): string => sink(`"type": "sns", ${inside}`)
const sqs = (inside: string): string => sink(`"type": "sqs", ${inside}`)
const bus = (inside: string): string => sink(`"type": "eventbridge", ${inside}`)
const topicArn = '"topicArn": "arn:aws:sns:eu-west-1:123456789012:events"'
const nats = (inside: string): string => sink(`"type": "nats", ${inside}`)
const servers = '"servers": ["nats.example.com:4222"]'
const rabbit = (inside: string): string => sink(`"type": "rabbitmq", ${inside}`)
const rabbitUrl = '"url": "amqps://relay@rabbit.example.com/events"'
const server = '"server": "smtp.example.com:587"'
const email = (inside: string): string => {
  const to = inside.includes('"to"') ? "" : '"to": ["oncall@example.com"], '
  return sink(`"type": "email", "from": "relay@example.com", ${to}${inside}`)
}

export const services: Theme = {
  title: "Kafka, AWS, NATS, RabbitMQ, email, alert services",
  mistakes: [
    { name: "Kafka: brokers as one text", config: kafka('"brokers": §"one:9092,two:9092", "topic": "events"') },
    {
      name: "Kafka: brokers with commas in the list",
      config: kafka('"brokers": [§"one:9092,two:9092"], "topic": "events"'),
    },
    { name: "Kafka: a broker as a URL", config: kafka('"brokers": [§"kafka://one:9092"], "topic": "events"') },
    { name: "Kafka: no broker", config: kafka('"brokers": §[], "topic": "events"') },
    { name: "Kafka: a topic with a blank", config: kafka(`${brokers}, "topic": §"my events"`) },
    {
      name: "Kafka: a topic with a slash around a placeholder",
      config: kafka(`${brokers}, "topic": §"scheduling/{{resource}}"`),
    },
    { name: "Kafka: a topic that is too long", config: kafka(`${brokers}, "topic": §"${"t".repeat(250)}"`) },
    { name: "Kafka: topics as a list", config: kafka(`${brokers}, "topic": §["events"]`) },
    { name: "Kafka: no topic", config: kafka(brokers).replace('"audit": {', '§"audit": {') },
    {
      name: "Kafka: a mechanism in other letters",
      config: kafka(
        `${brokers}, "topic": "events", "sasl": { "mechanism": §"scram-sha-512", "username": "relay", "password": "${canary}" }`,
      ),
    },
    {
      name: "Kafka: a password without its user",
      config: kafka(`${brokers}, "topic": "events", §"sasl": { "mechanism": "PLAIN", "password": "${canary}" }`),
    },
    {
      name: "Kafka: compression that the client does not know",
      config: kafka(`${brokers}, "topic": "events", "client": "kafkajs", "compression": §"zstd"`),
    },
    { name: "Kafka: TLS by true", config: kafka(`${brokers}, "topic": "events", "tls": §true`) },
    {
      name: "Kafka: topics to be made, by true",
      config: kafka(`${brokers}, "topic": "events", "createTopics": §true`),
    },
    { name: "SNS: a topic by its name", config: sns('"topicArn": §"events"') },
    { name: "SNS: a queue's ARN", config: sns('"topicArn": §"arn:aws:sqs:eu-west-1:123456789012:events"') },
    { name: "SNS: an endpoint with a path", config: sns(`${topicArn}, "endpoint": §"http://127.0.0.1:4566/sns"`) },
    {
      name: "SNS: a profile and credentials",
      config: sns(
        `${topicArn}, "profile": §"relay", "credentials": { "accessKeyId": "AKIA", "secretAccessKey": "${canary}" }`,
      ),
    },
    {
      name: "SNS: an access key without its secret",
      config: sns(`${topicArn}, §"credentials": { "accessKeyId": "AKIA" }`),
    },
    { name: "SNS: another region than the topic's", config: sns(`${topicArn}, "region": §"us-east-1"`) },
    { name: "SNS: a role by its name", config: sns(`${topicArn}, "role": { "arn": §"relay" }`) },
    { name: "SQS: a queue by its name", config: sqs('"queueUrl": §"events"') },
    {
      name: "SQS: a queue's ARN",
      config: sqs('"queueUrl": §"arn:aws:sqs:eu-west-1:123456789012:events"'),
    },
    {
      name: "SQS: a local queue without a region",
      config: sqs('"queueUrl": "http://127.0.0.1:4566/123456789012/events"').replace('"audit": {', '§"audit": {'),
    },
    { name: "EventBridge: a bus by its name", config: bus('"eventBusArn": §"default"') },
    {
      name: "EventBridge: a source of AWS's own",
      config: bus('"eventBusArn": "arn:aws:events:eu-west-1:123456789012:event-bus/default", "source": §"aws.relay"'),
    },
    {
      name: "NATS: a server as a URL",
      config: nats('"servers": [§"nats://nats.example.com:4222"], "subject": "events"'),
    },
    { name: "NATS: servers as one text", config: nats('"servers": §"one:4222,two:4222", "subject": "events"') },
    { name: "NATS: a subject with a wildcard", config: nats(`${servers}, "subject": §"events.>"`) },
    { name: "NATS: a subject with an empty word", config: nats(`${servers}, "subject": §"events..{{type}}"`) },
    { name: "NATS: a subject of the server's own", config: nats(`${servers}, "subject": §"$JS.API.STREAM.LIST"`) },
    {
      name: "NATS: the path of a credentials file",
      config: nats(`${servers}, "subject": "events", "auth": { "credentials": §"/etc/relay/${canary}.creds" }`),
    },
    {
      name: "NATS: the public key for the seed",
      config: nats(`${servers}, "subject": "events", "auth": { "nkey": §"U${canary}" }`),
    },
    {
      name: "NATS: two ways to log in",
      config: nats(
        `${servers}, "subject": "events", "auth": §{ "token": "${canary}", "username": "relay", "password": "${canary}" }`,
      ),
    },
    {
      name: "NATS: a password without its user",
      config: nats(`${servers}, "subject": "events", §"auth": { "password": "${canary}" }`),
    },
    {
      name: "NATS: a header of the server's own",
      config: nats(`${servers}, "subject": "events", "headers": { "Nats-Rollup": §"all" }`),
    },
    { name: "RabbitMQ: a host for a URL", config: rabbit('"url": §"rabbit.example.com:5672", "exchange": "events"') },
    {
      name: "RabbitMQ: several hosts",
      config: rabbit(`"url": §"amqp://relay:${canary}@one,two", "exchange": "events"`),
    },
    {
      name: "RabbitMQ: a virtual host with a slash",
      config: rabbit('"url": §"amqp://rabbit.example.com/a/b", "exchange": "events"'),
    },
    {
      name: "RabbitMQ: certificates in the URL",
      config: rabbit('"url": §"amqps://rabbit.example.com/?cacertfile=ca.pem", "exchange": "events"'),
    },
    {
      name: "RabbitMQ: certificates without TLS",
      config: rabbit('"url": "amqp://rabbit.example.com", "exchange": "events", "tls": §{}'),
    },
    {
      name: "RabbitMQ: a password twice",
      config: rabbit(
        `"url": "amqps://relay:${canary}@rabbit.example.com", "exchange": "events", "password": §"${canary}"`,
      ),
    },
    {
      name: "RabbitMQ: a password of nobody",
      config: rabbit(`"url": "amqps://rabbit.example.com", "exchange": "events", "password": §"${canary}"`),
    },
    { name: "RabbitMQ: neither exchange nor queue", config: rabbit(rabbitUrl).replace('"audit": {', '§"audit": {') },
    { name: "RabbitMQ: a placeholder in the exchange", config: rabbit(`${rabbitUrl}, "exchange": §"{{resource}}"`) },
    {
      name: "RabbitMQ: a delay that the exchange would answer with a return",
      config: rabbit(`${rabbitUrl}, "exchange": "events", "headers": { "x-delay": §"5000" }`),
    },
    {
      name: "RabbitMQ: a missing queue would lose events",
      config: rabbit(`${rabbitUrl}, "routingKey": "events", "mandatory": §false`),
    },
    {
      name: "RabbitMQ: a header that routes",
      config: rabbit(`${rabbitUrl}, "exchange": "events", "headers": { "CC": §"other" }`),
    },
    {
      name: "Email: less time for an attempt than SMTP gives a server",
      config: email(`"server": "smtp.example.com:587", "delivery": { "timeout": §"30 seconds" }`),
    },
    { name: "Email: the port of TLS without TLS", config: email('"server": §"smtp.example.com:465"') },
    {
      name: "Email: TLS from the first byte at another port",
      config: email('"server": "smtp.example.com:587", "security": §"tls"'),
    },
    { name: "Email: the port of IMAP", config: email('"server": §"mail.example.com:143"') },
    { name: "Kafka: the port of ZooKeeper", config: kafka('"brokers": [§"broker:2181"], "topic": "events"') },
    {
      name: "Kafka: a readable password without TLS",
      config: kafka(
        `${brokers}, "topic": "events", "sasl": §{ "mechanism": "PLAIN", "username": "relay", "password": "${canary}" }`,
      ),
    },
    {
      name: "NATS: the port of the monitoring page",
      config: nats('"servers": [§"nats.example.com:8222"], "subject": "events"'),
    },
    {
      name: "RabbitMQ: the port of the management page",
      config: rabbit('"url": §"amqp://relay@rabbit.example.com:15672/events", "exchange": "events"'),
    },
    {
      name: "RabbitMQ: the port of TLS without TLS",
      config: rabbit('"url": §"amqp://relay@rabbit.example.com:5671/events", "exchange": "events"'),
    },
    { name: "Email: a server as a URL", config: email('"server": §"smtp://smtp.example.com:587"') },
    { name: "Email: a server without a port", config: email('"server": §"smtp.example.com"') },
    { name: "Email: addresses as one text", config: email(`${server}, "to": §"one@example.com, two@example.com"`) },
    {
      name: "Email: addresses with commas in the list",
      config: email(`${server}, "to": [§"one@example.com, two@example.com"]`),
    },
    { name: "Email: nobody to send to", config: email(`${server}, "to": §[]`) },
    { name: "Email: a name for an address", config: email(`${server}, "replyTo": §"On call"`) },
    { name: "Email: a placeholder for an address", config: email(`${server}, "to": [§"{{/client/email}}"]`) },
    {
      name: "Email: a password over the network without TLS",
      config: email(`${server}, "security": §"none", "auth": { "username": "relay", "password": "${canary}" }`),
    },
    { name: "Email: the password beside the login", config: email(`${server}, §"password": "${canary}"`) },
    { name: "PagerDuty: no routing key", config: sink('"type": "pagerduty"').replace('"audit": {', '§"audit": {') },
    {
      name: "PagerDuty: the key by another name",
      config: sink(`"type": "pagerduty", §"integrationKey": "${canary}"`),
    },
    {
      name: "PagerDuty: a severity that there is not",
      config: sink('"type": "pagerduty", "routingKey": "k", "severity": §"high"'),
    },
    { name: "Slack: a channel for a URL", config: sink('"type": "slack", "url": §"#alerts"') },
    { name: "Slack: a channel", config: slack('§"channel": "#alerts"') },
    { name: "Slack: details as a list", config: slack('"details": §["{{account_id}}"]') },
    { name: "Slack: a detail that is a number", config: slack('"details": { "tier": §1 }') },
    {
      name: "Slack: a detail with a pointer without its slash",
      config: slack('"details": { "id": §"{{data/object/id}}" }'),
    },
  ],
}
