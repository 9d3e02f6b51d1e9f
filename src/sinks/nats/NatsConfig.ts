/** The config of a NATS sink. */
import { Effect, Schema } from "effect"
import * as Address from "../../config/Address.ts"
import type { Doubt } from "../../config/schema/ConfiguredTypes.ts"
import { body, bodyProblem, flag, secret, text, textOrShape } from "../../config/schema/Keys.ts"
import type { Entry } from "../../event/Event.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as Template from "../../formats/Template.ts"
import * as Certificates from "../Certificates.ts"
import * as MessageKeys from "../MessageKeys.ts"
import { SignatureConfig } from "../Signing.ts"

// Checks what NATS accepts as a subject to publish to, and which patterns of rights it fits.

/** A longer subject would not fit into the line of the protocol, and the server would close the connection. */
const longestSubject = 1_000

/** Tokens between dots: none is empty, and none is a wildcard. */
export const isSubject = (subject: string): boolean =>
  subject.length <= longestSubject &&
  subject.split(".").every((token) => /^[\x21-\x7e]+$/.test(token) && !/[*>]/.test(token))

/** `$JS.API` and `$SYS` are the server's own: a message to them is a request to it. */
const isReserved = (subject: string): boolean => /^\$(JS|SYS)\./.test(`${subject}.`)

/**
 * Reports whether a subject fits a pattern: `*` is a token, `>` at the end one or more. A queue may follow a blank.
 */
export const fits = (subject: string, pattern: string): boolean => {
  const wanted = (pattern.split(" ")[0] ?? "").split(".")
  const tokens = subject.split(".")
  if (wanted.at(-1) === ">" ? tokens.length < wanted.length : tokens.length !== wanted.length) return false
  return wanted.every((one, index) => one === "*" || one === ">" || one === tokens[index])
}

/** Reports why no subject of this template is valid. Text that an event fills in is made valid. */
const subjectProblem = (subject: Template.Text): string | undefined => {
  if (typeof subject !== "string") return undefined
  if (Template.problem(subject) !== undefined) return undefined
  const fixed = Template.withoutPlaceholders(subject)
  if (isReserved(fixed)) return "`$JS` and `$SYS` are the server's own: name another subject"
  if (isSubject(fixed)) return undefined
  return /[*>]/.test(fixed)
    ? "`*` and `>` are for those who subscribe: name the subject to publish to, as in `events.{{type}}`"
    : "no message can have this subject: it is words between dots, without spaces, 1,000 characters at most"
}

const sealed = (description: string, problem: (text: string) => string | undefined) =>
  Schema.RedactedFromValue(
    Schema.String.annotate({ description, shown: false }).check(
      Schema.makeFilter(problem, {
        expected: "text in double quotes",
        toJsonSchema: () => ({ minLength: 1 }),
      }),
    ),
  )

const seed = /^SU[A-Z2-7]{56}$/

const credentialsProblem = (text: string): string | undefined =>
  /BEGIN NATS USER JWT/.test(text) && /BEGIN USER NKEY SEED/.test(text)
    ? undefined
    : 'this is not the text of a credentials file: read it by "file:/etc/relay/nats.creds"'

const seedProblem = (text: string): string | undefined =>
  seed.test(text.trim()) ? undefined : 'this is not a seed of a user: it begins with "SU" and has 58 characters'

const AuthConfig = Schema.Struct({
  credentials: Schema.optionalKey(
    sealed("The text of a credentials file: `file:/etc/relay/nats.creds`", credentialsProblem),
  ),
  nkey: Schema.optionalKey(sealed("The seed of a user's NKey", seedProblem)),
  username: Schema.optionalKey(text("The user that the relay logs in as")),
  password: Schema.optionalKey(secret("Its password")),
  token: Schema.optionalKey(secret("A token")),
})
  .annotate({
    description: "Log in: by `credentials`, by `nkey`, by `username` and `password`, or by `token`",
    together: ["username", "password"],
  })
  .check(
    Schema.makeFilter(({ username, password, token, nkey, credentials }) => {
      const ways = [credentials, nkey, username ?? password, token].filter((way) => way !== undefined).length
      return ways === 1 || 'one way to log in stands here: "credentials", "nkey", "username" and "password", or "token"'
    }),
  )
export type AuthConfig = typeof AuthConfig.Type

const headersProblem = (headers: Readonly<Record<string, Template.Text>>) => {
  for (const [name, value] of Object.entries(headers)) {
    if (/^nats-/i.test(name)) return { path: [name], issue: "headers that begin with Nats- are the server's own" }
    if (typeof value === "string" && /[\r\n]/.test(value)) return { path: [name], issue: "a header is one line" }
  }
  return undefined
}

/** Words between dots, as a subject has them. */
const prefix = /^[\w$-]+(\.[\w$-]+)*$/

export const NatsConfig = Schema.Struct({
  servers: MessageKeys.hosts(
    "server",
    "nats.example.com:4222",
    "Servers of one cluster: any that answers will do",
    "without a server there is nowhere to publish",
  ),
  subject: textOrShape("The subject, which a stream must take: a template or an expression", {
    examples: ["events.{{type}}"],
    target: "place",
  }).check(Schema.makeFilter(subjectProblem)),
  key: MessageKeys.key,
  headers: MessageKeys.headers(headersProblem),
  format: MessageKeys.format,
  body,
  sign: Schema.optionalKey(SignatureConfig),
  auth: Schema.optionalKey(AuthConfig),
  tls: Schema.optionalKey(
    Certificates.CertificatesConfig.annotate({
      description: "Speak TLS to the servers; `{}` trusts the system's authorities. Without it there is no TLS",
    }),
  ),
  tlsFirst: flag("Whether the servers begin with the handshake of TLS (`handshake_first`)", false),
  inboxPrefix: Schema.String.annotate({
    description:
      "Prefix of the subjects of acknowledgements: the user must be allowed to subscribe to the subjects below it",
    default: "_INBOX",
    shown: true,
  })
    .check(Schema.isPattern(prefix, { message: 'this is not a prefix of subjects: write it as in "_INBOX_relay"' }))
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("_INBOX"))),
})
  .check(Schema.makeFilter(bodyProblem))
  .annotate({
    otherNames: [
      ["url urls address addresses", "servers"],
      ["topic", "subject"],
      ["username user password token credentials creds nkey", "auth", 'it belongs in "auth"'],
      ["encoding codec", "format"],
    ],
  })
export type NatsConfig = typeof NatsConfig.Type

/** Ports of a server at which no client can publish. */
const otherPorts: ReadonlyMap<number, string> = new Map([
  [8222, "the server's monitoring page"],
  [6222, "the routes between servers"],
])

export const doubts = ({ servers }: NatsConfig): ReadonlyArray<Doubt> =>
  servers.flatMap((server, index) => {
    const port = Address.parse(server)?.port ?? 0
    const use = otherPorts.get(port)
    if (use === undefined) return []
    return [{ path: ["servers", index], message: `${port} is the port of ${use}`, hint: "clients connect to 4222" }]
  })

// Encodes events as NATS messages.

export interface Message {
  readonly subject: string
  /** Messages of one key stay in order. Empty for a message without a key. */
  readonly key: string
  /** The stream recognizes a message that arrives twice by this. */
  readonly id: string
  readonly headers: ReadonlyArray<CloudEvents.Header>
  readonly body: Uint8Array
}

/** Returns a function that makes messages. That function throws if a template throws. `now` is as for `sentHeaders`. */
export const encoder = (config: NatsConfig, now?: () => number): ((entry: Entry) => Message) => {
  const subject = Template.compile(config.subject, "topic", "subject")
  const key = Template.compile(config.key, "key")
  const bodyOf = MessageKeys.bodyOf(config)
  const headers = MessageKeys.sentHeaders(
    config,
    {
      values: "header",
      raw: [MessageKeys.jsonHeader],
      cloudEvent: (entry) => CloudEvents.binary(entry, CloudEvents.nats),
    },
    now,
  )
  return (entry) => {
    const rendered = subject.render(entry)
    const body = bodyOf(entry)
    return {
      subject: rendered,
      key: key.render(entry),
      // Ids are unique within a webhook only, and a stream drops a message with the id of another, whatever its
      // subject.
      id: `${entry.event.webhook}:${idempotencyKey(entry)} ${rendered}`,
      headers: headers(entry, body),
      body,
    }
  }
}
