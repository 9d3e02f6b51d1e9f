/** Kafka, AWS, NATS, RabbitMQ, email and alert services. */
import { canary } from "../../cli/configs.ts"
import { kafka, sink, slack, type Theme } from "./Mistake.ts"

const brokers = '"brokers": ["broker:9092"]'
const byToken = (inside: string): string => `${brokers}, "topic": "events", "tls": {}, ${inside}`
const oauth = `{ "tokenUrl": "https://idp.example.com/token", "clientId": "relay", "clientSecret": "${canary}" }`
const bySchema = (inside: string): string =>
  `${brokers}, "topic": "events", "schema": { "registry": { "url": "http://127.0.0.1:8081" }, ${inside} }`
const sns = (inside: string): string => sink(`"type": "sns", ${inside}`)
const sqs = (inside: string): string => sink(`"type": "sqs", ${inside}`)
const bus = (inside: string): string => sink(`"type": "eventbridge", ${inside}`)
const s3 = (inside: string): string => sink(`"type": "s3", ${inside}`)
const bucket = '"bucket": "events", "region": "eu-west-1"'
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
  mistakes: {
    "Kafka: brokers as one text": kafka('"brokers": §"one:9092,two:9092", "topic": "events"'),
    "Kafka: brokers with commas in the list": kafka('"brokers": [§"one:9092,two:9092"], "topic": "events"'),
    "Kafka: a broker as a URL": kafka('"brokers": [§"kafka://one:9092"], "topic": "events"'),
    "Kafka: no broker": kafka('"brokers": §[], "topic": "events"'),
    "Kafka: a topic with a blank": kafka(`${brokers}, "topic": §"my events"`),
    "Kafka: a topic with a slash around a placeholder": kafka(`${brokers}, "topic": §"scheduling/{{resource}}"`),
    "Kafka: a topic that is too long": kafka(`${brokers}, "topic": §"${"t".repeat(250)}"`),
    "Kafka: topics as a list": kafka(`${brokers}, "topic": §["events"]`),
    "Kafka: no topic": kafka(brokers).replace('"audit": {', '§"audit": {'),
    "Kafka: a mechanism in other letters": kafka(
      `${brokers}, "topic": "events", "sasl": { "mechanism": §"scram-sha-512", "username": "relay", "password": "${canary}" }`,
    ),
    "Kafka: a password without its user": kafka(
      `${brokers}, "topic": "events", §"sasl": { "mechanism": "PLAIN", "password": "${canary}" }`,
    ),
    "Kafka: a token's login without an OAuth server": kafka(byToken('§"sasl": { "mechanism": "OAUTHBEARER" }')),
    "Kafka: a token's login with a password": kafka(
      byToken(`"sasl": { "mechanism": "OAUTHBEARER", "username": §"relay", "password": "${canary}" }`),
    ),
    "Kafka: a password's login with an OAuth server": kafka(
      byToken(`"sasl": { "mechanism": "PLAIN", "username": "relay", "password": "${canary}", "oauth": §${oauth} }`),
    ),
    "Kafka: two sources of a token": kafka(
      byToken(`"sasl": { "mechanism": "OAUTHBEARER", "oauth": ${oauth}, "tokenFile": §"/run/token" }`),
    ),
    "Kafka: the path of a token from the directory of the config": kafka(
      byToken('"sasl": { "mechanism": "OAUTHBEARER", "tokenFile": §"secrets/token" }'),
    ),
    "Kafka: MSK without a region": kafka(byToken('§"sasl": { "mechanism": "AWS_MSK_IAM" }')),
    "Kafka: MSK with a profile and credentials": kafka(
      byToken(
        `"sasl": { "mechanism": "AWS_MSK_IAM", "region": "eu-west-1", "profile": §"relay", "credentials": { "accessKeyId": "AKIA", "secretAccessKey": "${canary}" } }`,
      ),
    ),
    "Kafka: a role with a user and a password": kafka(
      byToken(
        `"sasl": { "mechanism": "PLAIN", "username": "relay", "password": "${canary}", "role": §{ "arn": "arn:aws:iam::123456789012:role/relay" } }`,
      ),
    ),
    "Kafka: a token over the network without TLS": kafka(
      `${brokers}, "topic": "events", "sasl": §{ "mechanism": "OAUTHBEARER", "oauth": ${oauth} }`,
    ),
    "Kafka: an extension with a dash in its name": kafka(
      byToken(
        `"sasl": { "mechanism": "OAUTHBEARER", "oauth": ${oauth}, "extensions": { "logical-cluster": §"lkc-1" } }`,
      ),
    ),
    "Kafka: compression that the client does not know": kafka(
      `${brokers}, "topic": "events", "client": "kafkajs", "compression": §"zstd"`,
    ),
    "Kafka: TLS by true": kafka(`${brokers}, "topic": "events", "tls": §true`),
    "Kafka: Avro without a schema": kafka(bySchema('"type": "avro"').replace('"schema"', '§"schema"')),
    "Kafka: a schema by its path alone": kafka(bySchema('"type": "json", "definition": §"/etc/relay/event.json"')),
    "Kafka: a subject with an unknown placeholder": kafka(bySchema('"type": "json", "subject": §"{{topics}}-value"')),
    "Kafka: a type of schema that is not supported": kafka(bySchema('"type": §"protobuf"')),
    "Kafka: a body without a schema of its own": kafka(
      `${bySchema('"type": "json"').replace('"schema": ', '"schema": §')}, "format": "template", "body": {}`,
    ),
    "Kafka: a registry by its address alone": kafka(
      `${brokers}, "topic": "events", "schema": { "type": "json", "registry": §"http://127.0.0.1:8081" }`,
    ),
    "Kafka: a registry with two credentials": kafka(
      `${brokers}, "topic": "events", "schema": { "type": "json", "registry": { "url": "http://127.0.0.1:8081", "username": "relay", "password": "${canary}", "headers": { "authorization": §"Bearer ${canary}" } } }`,
    ),
    "Kafka: a registry's password without TLS": kafka(
      `${brokers}, "topic": "events", "schema": { "type": "json", "registry": { "url": §"http://registry.example.com", "username": "relay", "password": "${canary}" } }`,
    ),
    "Kafka: topics to be made, by true": kafka(`${brokers}, "topic": "events", "createTopics": §true`),
    "SNS: a topic by its name": sns('"topicArn": §"events"'),
    "SNS: a queue's ARN": sns('"topicArn": §"arn:aws:sqs:eu-west-1:123456789012:events"'),
    "SNS: an endpoint with a path": sns(`${topicArn}, "endpoint": §"http://127.0.0.1:4566/sns"`),
    "SNS: a profile and credentials": sns(
      `${topicArn}, "profile": §"relay", "credentials": { "accessKeyId": "AKIA", "secretAccessKey": "${canary}" }`,
    ),
    "SNS: an access key without its secret": sns(`${topicArn}, §"credentials": { "accessKeyId": "AKIA" }`),
    "SNS: another region than the topic's": sns(`${topicArn}, "region": §"us-east-1"`),
    "SNS: a role by its name": sns(`${topicArn}, "role": { "arn": §"relay" }`),
    "SQS: a queue by its name": sqs('"queueUrl": §"events"'),
    "SQS: a queue's ARN": sqs('"queueUrl": §"arn:aws:sqs:eu-west-1:123456789012:events"'),
    "SQS: a local queue without a region": sqs('"queueUrl": "http://127.0.0.1:4566/123456789012/events"').replace(
      '"audit": {',
      '§"audit": {',
    ),
    "EventBridge: a bus by its name": bus('"eventBusArn": §"default"'),
    "EventBridge: a source of AWS's own": bus(
      '"eventBusArn": "arn:aws:events:eu-west-1:123456789012:event-bus/default", "source": §"aws.relay"',
    ),
    "S3: a bucket as a URL": s3('"bucket": §"s3://events/in", "region": "eu-west-1"'),
    "S3: no region": s3('"bucket": "events"').replace('"audit": {', '§"audit": {'),
    "S3: a prefix that begins with a slash": s3(`${bucket}, "prefix": §"/events/{{date}}/"`),
    "S3: a prefix by strftime": s3(`${bucket}, "prefix": §"events/%Y/%m/%d/"`),
    "S3: an endpoint with the bucket": s3(`${bucket}, "endpoint": §"https://minio.example.com/events"`),
    "NATS: a server as a URL": nats('"servers": [§"nats://nats.example.com:4222"], "subject": "events"'),
    "NATS: servers as one text": nats('"servers": §"one:4222,two:4222", "subject": "events"'),
    "NATS: a subject with a wildcard": nats(`${servers}, "subject": §"events.>"`),
    "NATS: a subject with an empty word": nats(`${servers}, "subject": §"events..{{type}}"`),
    "NATS: a subject of the server's own": nats(`${servers}, "subject": §"$JS.API.STREAM.LIST"`),
    "NATS: the path of a credentials file": nats(
      `${servers}, "subject": "events", "auth": { "credentials": §"/etc/relay/${canary}.creds" }`,
    ),
    "NATS: the public key for the seed": nats(`${servers}, "subject": "events", "auth": { "nkey": §"U${canary}" }`),
    "NATS: two ways to log in": nats(
      `${servers}, "subject": "events", "auth": §{ "token": "${canary}", "username": "relay", "password": "${canary}" }`,
    ),
    "NATS: a password without its user": nats(`${servers}, "subject": "events", §"auth": { "password": "${canary}" }`),
    "NATS: a header of the server's own": nats(`${servers}, "subject": "events", "headers": { "Nats-Rollup": §"all" }`),
    "RabbitMQ: a host for a URL": rabbit('"url": §"rabbit.example.com:5672", "exchange": "events"'),
    "RabbitMQ: several hosts": rabbit(`"url": §"amqp://relay:${canary}@one,two", "exchange": "events"`),
    "RabbitMQ: a virtual host with a slash": rabbit('"url": §"amqp://rabbit.example.com/a/b", "exchange": "events"'),
    "RabbitMQ: certificates in the URL": rabbit(
      '"url": §"amqps://rabbit.example.com/?cacertfile=ca.pem", "exchange": "events"',
    ),
    "RabbitMQ: certificates without TLS": rabbit(
      '"url": "amqp://rabbit.example.com", "exchange": "events", "tls": §{}',
    ),
    "RabbitMQ: a password twice": rabbit(
      `"url": "amqps://relay:${canary}@rabbit.example.com", "exchange": "events", "password": §"${canary}"`,
    ),
    "RabbitMQ: a password of nobody": rabbit(
      `"url": "amqps://rabbit.example.com", "exchange": "events", "password": §"${canary}"`,
    ),
    "RabbitMQ: neither exchange nor queue": rabbit(rabbitUrl).replace('"audit": {', '§"audit": {'),
    "RabbitMQ: a placeholder in the exchange": rabbit(`${rabbitUrl}, "exchange": §"{{resource}}"`),
    "RabbitMQ: a delay that the exchange would answer with a return": rabbit(
      `${rabbitUrl}, "exchange": "events", "headers": { "x-delay": §"5000" }`,
    ),
    "RabbitMQ: a missing queue would lose events": rabbit(`${rabbitUrl}, "routingKey": "events", "mandatory": §false`),
    "RabbitMQ: a header that routes": rabbit(`${rabbitUrl}, "exchange": "events", "headers": { "CC": §"other" }`),
    "Email: less time for an attempt than SMTP gives a server": email(
      `"server": "smtp.example.com:587", "delivery": { "timeout": §"30 seconds" }`,
    ),
    "Email: the port of TLS without TLS": email('"server": §"smtp.example.com:465"'),
    "Email: TLS from the first byte at another port": email('"server": "smtp.example.com:587", "security": §"tls"'),
    "Email: the port of IMAP": email('"server": §"mail.example.com:143"'),
    "Kafka: the port of ZooKeeper": kafka('"brokers": [§"broker:2181"], "topic": "events"'),
    "Kafka: a readable password without TLS": kafka(
      `${brokers}, "topic": "events", "sasl": §{ "mechanism": "PLAIN", "username": "relay", "password": "${canary}" }`,
    ),
    "NATS: the port of the monitoring page": nats('"servers": [§"nats.example.com:8222"], "subject": "events"'),
    "RabbitMQ: the port of the management page": rabbit(
      '"url": §"amqp://relay@rabbit.example.com:15672/events", "exchange": "events"',
    ),
    "RabbitMQ: the port of TLS without TLS": rabbit(
      '"url": §"amqp://relay@rabbit.example.com:5671/events", "exchange": "events"',
    ),
    "Email: a server as a URL": email('"server": §"smtp://smtp.example.com:587"'),
    "Email: a server without a port": email('"server": §"smtp.example.com"'),
    "Email: addresses as one text": email(`${server}, "to": §"one@example.com, two@example.com"`),
    "Email: addresses with commas in the list": email(`${server}, "to": [§"one@example.com, two@example.com"]`),
    "Email: nobody to send to": email(`${server}, "to": §[]`),
    "Email: a name for an address": email(`${server}, "replyTo": §"On call"`),
    "Email: a placeholder for an address": email(`${server}, "to": [§"{{/client/email}}"]`),
    "Email: a password over the network without TLS": email(
      `${server}, "security": §"none", "auth": { "username": "relay", "password": "${canary}" }`,
    ),
    "Email: the password beside the login": email(`${server}, §"password": "${canary}"`),
    "PagerDuty: no routing key": sink('"type": "pagerduty"').replace('"audit": {', '§"audit": {'),
    "PagerDuty: the key by another name": sink(`"type": "pagerduty", §"integrationKey": "${canary}"`),
    "PagerDuty: a severity that there is not": sink('"type": "pagerduty", "routingKey": "k", "severity": §"high"'),
    "Slack: a channel for a URL": sink('"type": "slack", "url": §"#alerts"'),
    "Slack: a channel": slack('"channel": §"#alerts"'),
    "Slack: a token without a channel": sink(`"type": "slack", "token": "${canary}"`).replace(
      '"audit": {',
      '§"audit": {',
    ),
    "Slack: neither a URL nor a token": sink('"type": "slack"').replace('"audit": {', '§"audit": {'),
    "Slack: a changed count by a URL": slack('"alert": { §"update": "1 minute" }'),
    "HTTP: an update without alerts": sink(
      '"type": "http", "url": "https://example.com/", "format": "template", "body": 1, §"update": {}',
    ),
    "HTTP: an update without a body": sink(
      '"type": "http", "url": "https://example.com/", "format": "template", "trigger": { "body": 1 }, §"update": {}',
    ),
    "Slack: details as a list": slack('"details": §["{{account_id}}"]'),
    "Slack: a detail that is a number": slack('"details": { "tier": §1 }'),
    "Slack: a detail with a pointer without its slash": slack('"details": { "id": §"{{data/object/id}}" }'),
  },
}
