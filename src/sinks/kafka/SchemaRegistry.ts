/**
 * Values for consumers that ask a schema registry (Confluent's API): a magic byte 0,
 * the schema's id, and then the value, as JSON or in Avro's binary encoding.
 *
 * **Guarantee.** An id is requested once for each subject, and kept until the sink
 * closes or has 10,000 subjects. While the registry is unavailable, values with a known id are still sent,
 * and others wait. If the registry refuses a schema for a constant subject, the sink
 * waits for a person. If the subject is made from the event, only that event is
 * retried. A value that doesn't fit its schema is never sent.
 *
 * **Gotcha.** The registry compares schemas as text or in a normal form of its own.
 * The definition is therefore sent as it is written.
 */
import { Clock, Effect, Redacted, Result, Schema, type Scope } from "effect"
import { flag, secret, text, textOr } from "../../config/schema/Keys.ts"
import type { Entry } from "../../event/Event.ts"
import { eventTypes } from "../../event/EventType.ts"
import { quoting } from "../../event/Quoted.ts"
import { orUndefined, parsedJson } from "../../event/Tolerance.ts"
import { attempt, Unrenderable } from "../../formats/Rendering.ts"
import * as Template from "../../formats/Template.ts"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import * as Certificates from "../Certificates.ts"
import * as AccessTokens from "../http/AccessTokens.ts"
import * as HttpAnswer from "../http/HttpAnswer.ts"
import { fixedUrl } from "../http/HttpUrl.ts"
import { possibleValues } from "../MessageKeys.ts"
import { keeper, oneLine, ownWords, spokenIn } from "../ServiceWords.ts"
import { failed, misconfigured, SinkError, throttled, unacceptable, unavailable } from "../Sink.ts"

const topicPlaceholder = /\{\{\s*topic\s*\}\}/g

const isJson = (text: string): boolean => parsedJson(text) !== undefined

interface Credentials {
  readonly username?: string
  readonly headers: Readonly<Record<string, unknown>>
  readonly oauth?: unknown
}

/** Reports a credential beside another one. */
const credentialProblem = ({ username, headers, oauth }: Credentials): Schema.FilterIssue | undefined => {
  const header = Object.keys(headers).find((name) => name.toLowerCase() === "authorization")
  if (oauth !== undefined && username !== undefined) {
    return { path: ["username"], issue: '"oauth" and "username" exclude each other: take one out' }
  }
  const other = oauth === undefined ? username && "username" : "oauth"
  return header === undefined || other === undefined
    ? undefined
    : { path: ["headers", header], issue: `with "${other}" this header carries its credential` }
}

const RegistryConfig = Schema.Struct({
  url: fixedUrl({
    description: "The registry's address; its API begins with `/subjects` below it",
    examples: ["https://registry.example.com:8081"],
  }),
  username: Schema.optionalKey(text("The user, or the key of an API key, for HTTP's basic authentication")),
  password: Schema.optionalKey(secret("Its password, or the secret of the API key")),
  headers: Schema.Record(
    Schema.String,
    Schema.RedactedFromValue(
      Schema.String.annotate({ shown: false }).check(
        Schema.isPattern(/^[\x20-\x7e]*$/, { message: "a header holds visible ASCII only, and no line break" }),
      ),
    ),
  )
    .annotate({
      description: "Headers of each request, such as `authorization` with a bearer token; values are never shown",
      headerNames: true,
    })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  oauth: Schema.optionalKey(AccessTokens.OAuthConfig),
  tls: Schema.optionalKey(
    Certificates.CertificatesConfig.annotate({ description: "Certificates of one's own, for the registry" }),
  ),
})
  .annotate({
    description: "The schema registry and its credentials",
    together: ["username", "password"],
    otherNames: [
      ["uri endpoint address schema_registry_url", "url"],
      ["token bearer_token authorization", "headers", '"headers" may hold it: { "authorization": "Bearer …" }'],
      ["user api_key key", "username"],
      ["pass api_secret secret", "password"],
    ],
  })
  .check(Schema.makeFilter(credentialProblem))

/** The keys of the schema of values or of keys. */
const schemaKeys = (of: "value" | "key", usual: string) => ({
  type: Schema.Literals(["json", "avro"]).annotate({
    description: `\`json\`: the ${of} as JSON, checked by a JSON Schema. \`avro\`: the ${of} in Avro's binary encoding`,
    shown: true,
  }),
  subject: textOr(
    "The subject that has the schema; may hold placeholders, and `{{topic}}` is the record's topic",
    `{{topic}}-${of}`,
    { template: true, placeholders: ["topic"] },
  ),
  definition: Schema.optionalKey(
    text(`The schema, as JSON text: usually \`file:PATH\`. By default ${usual}`, {
      examples: ["file:/etc/relay/event.avsc"],
    }).check(
      Schema.makeFilter(
        (definition: string) => isJson(definition) || 'this is not JSON: write "file:PATH" for the content of a file',
      ),
    ),
  ),
})

export const SchemaConfig = Schema.Struct({
  registry: RegistryConfig,
  ...schemaKeys("value", "a JSON Schema of the envelope"),
  key: Schema.optionalKey(
    Schema.Struct(schemaKeys("key", "the schema of a text")).annotate({
      description: "Frame keys too, by a schema of their own. A key is a text",
    }),
  ),
  autoRegister: flag(
    "Whether the relay registers the schema if the subject lacks it; otherwise an operator registers it first",
    true,
  ),
})
  .annotate({
    description: "Frame values for consumers that ask a schema registry, by Confluent's API",
    otherNames: [
      ["subject_name", "subject"],
      ["schema schema_file avro_schema json_schema file", "definition", 'here it is "definition": "file:PATH"'],
      ["auto_register auto_register_schemas", "autoRegister"],
      ["format encoding", "type"],
    ],
  })
  .check(
    Schema.makeFilter(({ type, definition }) =>
      type === "avro" && definition === undefined
        ? { path: ["definition"], issue: 'Avro needs a schema: write "definition": "file:PATH"' }
        : undefined,
    ),
  )
export type SchemaConfig = typeof SchemaConfig.Type

/** Apicurio Registry takes only a schema that names its draft. */
const textSchema = '{"$schema":"http://json-schema.org/draft-07/schema#","type":"string"}'
/** The schema of a sink's keys in the form of its schema of values, or `undefined` if keys aren't framed. */
export const ofKeys = ({ key, ...ofValues }: SchemaConfig): SchemaConfig | undefined =>
  key && { ...ofValues, definition: key.type === "avro" ? '"string"' : textSchema, ...key }

/** A subject with its schema. */
interface Subject {
  readonly name: string
  /** The event type that the schema names, or an empty text if it allows any. */
  readonly type: string
}

const keyOf = ({ name, type }: Subject): string => `${name}\n${type}`

interface Named {
  readonly schema: SchemaConfig
  /** The sink's topic. */
  readonly topic: Template.Text
}

/** The subject's template with the topic's template in it. An expression has no place in a template. */
const wholeSubject = ({ schema: { subject }, topic }: Named): string =>
  typeof topic === "string" ? subject.replace(topicPlaceholder, () => topic) : subject

/** The built-in schema names the type if the subject does, because another type then has another subject. */
const namesType = (named: Named): boolean =>
  named.schema.definition === undefined && Template.names(wholeSubject(named)).includes("type")

/** Returns a function that finds the subject of an event. That function throws if a template throws. */
export const subjectsOf = (named: Named): ((entry: Entry) => Subject) => {
  const topic = Template.compile(named.topic, "topic", "topic")
  const parts = named.schema.subject.split(topicPlaceholder).map((part) => Template.compile(part, "topic", "subject"))
  const isOfType = namesType(named)
  return (entry) => {
    const name = parts.map(({ render }) => render(entry)).join(topic.render(entry))
    if (name === "") throw new Unrenderable('can\'t be rendered: "schema.subject" is empty for this event')
    return { name, type: isOfType ? entry.event.type : "" }
  }
}
const string = { type: "string" }

/** The JSON Schema of an envelope. The sender publishes no schemas of objects, so `data.object` is open. */
const envelopeSchema = (type: string): string =>
  JSON.stringify({
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Event",
    type: "object",
    required: ["id", "account_id", "version", "created_at", "data"],
    properties: {
      id: string,
      account_id: string,
      version: string,
      created_at: string,
      data: {
        type: "object",
        required: ["type", "object"],
        properties: { type: type === "" ? string : { ...string, const: type }, object: { type: "object" } },
      },
    },
  })

// Encodes values, and finds the place at which a value doesn't fit.

/** The place in a value, and the requirement of the schema there. */
interface Misfit {
  readonly pointer: string
  readonly why: string
}

type Encode = (value: Uint8Array) => Uint8Array | Misfit

const isMisfit = (made: Uint8Array | Misfit): made is Misfit => "pointer" in made

const notJson: Misfit = { pointer: "", why: "is not JSON" }

const parsed = (value: Uint8Array): { readonly json: unknown } | undefined =>
  orUndefined(() => ({ json: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(value)) }))

const escaped = (name: string | number): string => String(name).replaceAll("~", "~0").replaceAll("/", "~1")

/** The validator for a schema's draft: 2020-12, 2019-09, or 07 for any other. */
const loadValidator = async (definition: unknown) => {
  const draft = typeof definition === "object" && definition !== null ? Reflect.get(definition, "$schema") : ""
  // Without the dot this path leads to `NoSchemas.ts`.
  if (String(draft).includes("2020-12")) return (await import("ajv/./dist/2020.js")).Ajv2020
  if (String(draft).includes("2019-09")) return (await import("ajv/dist/2019.js")).Ajv2019
  return (await import("ajv")).Ajv
}

const jsonEncoder = async (definition: string): Promise<Encode> => {
  const schema = JSON.parse(definition)
  const Validator = await loadValidator(schema)
  // Formats are annotations, as in the drafts since 2019-09.
  const validate = new Validator({ strict: false, validateFormats: false, logger: false }).compile(schema)
  return (value) => {
    const found = parsed(value)
    if (found === undefined) return notJson
    if (validate(found.json)) return value
    const { instancePath = "", message = "does not fit", params } = validate.errors?.[0] ?? {}
    const name: unknown = params?.missingProperty ?? params?.additionalProperty
    return { pointer: typeof name === "string" ? `${instancePath}/${escaped(name)}` : instancePath, why: message }
  }
}

/** The part of `avsc` that is used. */
interface AvroType {
  readonly isValid: (
    value: unknown,
    options: { readonly errorHook: (path: ReadonlyArray<string | number>, value: unknown, type: unknown) => void },
  ) => boolean
  readonly toBuffer: (value: unknown) => Buffer
}

interface AvroModule {
  readonly default: { readonly Type: { readonly forSchema: (schema: unknown) => AvroType } }
}

const avroEncoder = async (definition: string): Promise<Encode> => {
  // The package's entry would lead to `NoSchemas.ts`, and this file loads only the types.
  const { default: avro }: AvroModule = await import(
    // @ts-expect-error It has no declarations.
    "avsc/lib/types.js"
  )
  const type = avro.Type.forSchema(JSON.parse(definition))
  return (value) => {
    const found = parsed(value)
    if (found === undefined) return notJson
    let misfit: Misfit | undefined
    const errorHook = (path: ReadonlyArray<string | number>, _: unknown, wanted: unknown) => {
      misfit ??= {
        pointer: path.map((name) => `/${escaped(name)}`).join(""),
        why: `must be ${oneLine(String(wanted))}`,
      }
    }
    return type.isValid(found.json, { errorHook }) ? type.toBuffer(found.json) : (misfit ?? notJson)
  }
}

const encoderOf = ({ type }: SchemaConfig, definition: string): Effect.Effect<Encode, SinkError> =>
  Effect.tryPromise({
    try: () => (type === "avro" ? avroEncoder(definition) : jsonEncoder(definition)),
    catch: (error) => {
      const words = oneLine(error instanceof Error ? error.message : "")
      return misconfigured(`"schema.definition" is not a schema of type ${type}: ${words}`)
    },
  })

/** Magic byte, id, and the value. */
const framed = (id: number, value: Uint8Array): Uint8Array => {
  const bytes = Buffer.allocUnsafe(5 + value.length)
  bytes[0] = 0
  bytes.writeInt32BE(id, 1)
  bytes.set(value, 5)
  return bytes
}

/** Stands in for the frame in previews. The value is no longer the received body. */
export const unframed = (_: Entry, value: Uint8Array): Uint8Array => Uint8Array.from(value)

// The registry's HTTP API: docs.confluent.io/platform/current/schema-registry/develop/api.html

interface Answer {
  readonly response: Response
  readonly text: string
}

/** Below `delivery.timeout`, so that a registry that hangs counts as unavailable. */
const timeout = "5 seconds"

/** Bytes of an answer. It may repeat the schema. */
const maxAnswer = 4 * 1024 * 1024

/** The registry's own code if the answer has one, or else the status. */
const codeOf = ({ response, text }: Answer): number => {
  const code: unknown = isJson(text) ? Reflect.get(Object(JSON.parse(text)), "error_code") : undefined
  return typeof code === "number" && code > 0 ? code : response.status
}

const fieldOf = ({ text }: Answer, name: string): unknown =>
  isJson(text) ? Reflect.get(Object(JSON.parse(text)), name) : undefined

/** The id of a schema, or `undefined` if the answer has none that fits the frame. */
const idIn = (answer: Answer): number | undefined => {
  const id = fieldOf(answer, "id")
  return typeof id === "number" && Number.isInteger(id) && id >= 0 && id < 2 ** 31 ? id : undefined
}

const isFound = ({ response }: Answer): boolean => response.status >= 200 && response.status < 300

/** Reports whether the registry answered that it lacks the subject, the version or the schema. */
const isUnknown = (answer: Answer): boolean => [40401, 40402, 40403].includes(codeOf(answer))

/** Advice by the registry's code about one subject. */
const aboutSubject = (code: number, autoRegister: boolean): string | undefined => {
  switch (code) {
    case 403:
    case 40301:
      return "the relay may not read or register schemas of this subject: grant it"
    case 40401:
    case 40402:
    case 40403:
      return autoRegister
        ? "there is no such schema"
        : 'the subject has no such schema: register it, or let the relay do so with "autoRegister"'
    case 409:
      return "the schema is incompatible with the subject's earlier versions: correct it, or change the subject's compatibility"
    case 42205:
      return "the registry or the subject is read-only: register the schema by hand, or allow the relay to"
    case 400:
    case 422:
    case 42201:
      return 'the registry does not accept the schema: correct "schema.definition", or "schema.type" if the registry does not know it'
    default:
      return undefined
  }
}

/** Asks one registry. */
const makeRequests = Effect.fnUntraced(function* ({ registry, autoRegister }: SchemaConfig, isTemplated: boolean) {
  const clock = yield* Clock.Clock
  const fetch = yield* HttpTransport.make(
    registry.tls && (yield* Certificates.read(registry.tls, "schema.registry.tls")),
  )
  const keep = keeper(registry)
  const tokens = registry.oauth && (yield* AccessTokens.make(registry.oauth, { keep }))
  const base = Redacted.value(registry.url).replace(/\/+$/, "")
  const { origin } = new URL(base)
  const name = `schema registry ${origin}`
  const asked = { name, origin, tls: "schema.registry.tls" }
  const { username, password } = registry
  const headers = {
    "user-agent": HttpTransport.userAgent,
    accept: "application/vnd.schemaregistry.v1+json, application/json",
    "content-type": "application/vnd.schemaregistry.v1+json",
    ...(username !== undefined &&
      password !== undefined && {
        authorization: `Basic ${Buffer.from(`${username}:${Redacted.value(password)}`).toString("base64")}`,
      }),
    ...Object.fromEntries(Object.entries(registry.headers).map(([name, value]) => [name, Redacted.value(value)])),
  }

  const exchange = (path: string, body: string | undefined, token?: AccessTokens.Token) =>
    Effect.tryPromise({
      try: async (signal): Promise<Answer> => {
        const abort = new AbortController()
        signal.addEventListener("abort", () => abort.abort(), { once: true })
        const response = await fetch(`${base}${path}`, {
          method: body === undefined ? "GET" : "POST",
          headers: { ...headers, ...(token !== undefined && { authorization: `Bearer ${Redacted.value(token)}` }) },
          ...(body !== undefined && { body }),
          signal: abort.signal,
        })
        const read = await HttpTransport.drain(response, abort, maxAnswer)
        return { response, text: Buffer.concat(read).toString("utf8") }
      },
      catch: (error) => new SinkError({ reason: HttpAnswer.reasonOfFailure(error, asked) }),
    })

  /** Sends a request. Fails with errors that are not about a subject. */
  const request = Effect.fnUntraced(function* (path: string, body?: unknown) {
    const text = body === undefined ? undefined : JSON.stringify(body)
    const token = tokens && (yield* tokens.current)
    let answer = yield* exchange(path, text, token)
    if (tokens !== undefined && token !== undefined && answer.response.status === 401) {
      answer = yield* exchange(path, text, yield* tokens.after(token))
    }
    const failure = failureOf(answer)
    return failure === undefined ? answer : yield* failure
  })

  const said = (answer: Answer): string =>
    `${name} answered ${answer.response.status}${quoting(ownWords(keep, spokenIn(answer.text), []))}`

  const failureOf = (answer: Answer): SinkError | undefined => {
    const { response, text } = answer
    const { status } = response
    const proxy = HttpAnswer.ofProxy(response, asked)
    if (proxy !== undefined) return new SinkError({ reason: proxy })
    const inFront = HttpAnswer.meaningInFront({ status, headers: response.headers, text: () => text }, false)
    const because = inFront?.because === undefined ? "" : `: ${inFront.because}`
    const mayWait = status === 503 && response.headers.get("retry-after") !== null
    if (status === 429 || mayWait || inFront?.verdict === "throttle") {
      return throttled(
        `${said(answer)}${because}`,
        HttpAnswer.waitOf(response.headers, clock.currentTimeMillisUnsafe()),
      )
    }
    if (inFront?.verdict === "misconfigured") return misconfigured(`${said(answer)}${because}`)
    // A registry that can't reach its leader or its storage answers 500.
    if (status === 408 || status >= 500) return unavailable(`${said(answer)}${because}`)
    if (status === 401) {
      return misconfigured(`${said(answer)}: correct the credentials of "schema.registry"`)
    }
    if (isFound(answer) && !isJson(text) && /json/.test(response.headers.get("content-type") ?? "")) {
      return unavailable(`${name} can't be reached: its answer broke off`)
    }
    if (isFound(answer) || aboutSubject(codeOf(answer), autoRegister) !== undefined) return undefined
    return misconfigured(`${said(answer)}: check "schema.registry.url"; the API begins with /subjects below it`)
  }

  /** The error of an answer about a subject. */
  const refusalOf = (answer: Answer, subject: string, code = codeOf(answer)): SinkError => {
    const advice = aboutSubject(code, autoRegister) ?? 'check "schema.registry.url"'
    const message = `subject ${oneLine(subject)}: ${said(answer)}: ${advice}`
    return isTemplated ? failed(message) : misconfigured(message)
  }

  const noRegistry = (answer: Answer): SinkError =>
    misconfigured(`${said(answer)} without a schema's id: check "schema.registry.url"`)

  return { name, request, refusalOf, noRegistry }
})

/** With more subjects all ids are forgotten, and requested again. */
const maxSubjects = 10_000
/** Requests to the registry at a time. */
const concurrency = 8

/** The schemas of a sink. */
export interface Schemas {
  /** Requests the missing ids for these events. Fails if the events have to wait. */
  readonly prepare: (entries: ReadonlyArray<Entry>) => Effect.Effect<void, SinkError>
  /** Returns a prepared value in its frame, or why it can't be sent. Throws if a template throws. */
  readonly frame: (entry: Entry, value: Uint8Array) => Uint8Array | SinkError
  /** Finds out whether the registry can be used, and has or would accept the schema. Registers nothing. */
  readonly check: Effect.Effect<void, SinkError>
  /** Describes subjects of these event types that the registry lacks or would refuse. */
  readonly advise: (types: ReadonlyArray<string> | undefined) => Effect.Effect<ReadonlyArray<string>, SinkError>
}

const isOneSubjects = ({ reason }: SinkError): boolean => reason._tag === "DeliveryFailed"

/** Asks a registry about the subjects of a sink. */
const makeSubjects = Effect.fnUntraced(function* ({ schema }: Named, isTemplated: boolean) {
  const { type, definition, autoRegister } = schema
  const { name, request, refusalOf, noRegistry } = yield* makeRequests(schema, isTemplated)
  const encoders = new Map<string, Encode>()

  const textOf = (subject: Subject): string => definition ?? envelopeSchema(subject.type)
  const encoderFor = Effect.fnUntraced(function* (subject: Subject) {
    const encode = encoders.get(subject.type) ?? (yield* encoderOf(schema, textOf(subject)))
    encoders.set(subject.type, encode)
    return encode
  })
  // Registries that know only Avro refuse the key.
  const bodyOf = (subject: Subject) => ({ schema: textOf(subject), ...(type === "json" && { schemaType: "JSON" }) })
  const at = ({ name }: Subject): string => `/subjects/${Template.escapeUrl(name)}`

  /** Registers a schema only if the subject lacks it, so that a known schema needs no right to write. */
  const idOf = Effect.fnUntraced(function* (subject: Subject) {
    const body = bodyOf(subject)
    const found = yield* request(at(subject), body)
    const answer = autoRegister && isUnknown(found) ? yield* request(`${at(subject)}/versions`, body) : found
    if (!isFound(answer)) return yield* refusalOf(answer, subject.name)
    return idIn(answer) ?? (yield* noRegistry(answer))
  })

  /** Looks a schema up. If it is missing, asks whether it could be registered. */
  const checkSubject = Effect.fnUntraced(function* (subject: Subject) {
    yield* encoderFor(subject)
    const body = bodyOf(subject)
    const found = yield* request(at(subject), body)
    if (!autoRegister || !isUnknown(found)) {
      if (!isFound(found)) return yield* refusalOf(found, subject.name)
      return idIn(found) === undefined ? yield* noRegistry(found) : undefined
    }
    const answer = yield* request(`/compatibility${at(subject)}/versions/latest`, body)
    if (isUnknown(answer)) return
    const refused = !isFound(answer) || fieldOf(answer, "is_compatible") === false
    if (refused) return yield* refusalOf(answer, subject.name, isFound(answer) ? 409 : undefined)
  })

  const inTime = <A>(asking: Effect.Effect<A, SinkError>) =>
    Effect.timeoutOrElse(asking, {
      duration: timeout,
      orElse: () => Effect.fail(unavailable(`${name} can't be reached: no answer within ${timeout}`)),
    })

  /** An answer to this shows that the address and the credentials are right. */
  const reach = Effect.asVoid(request("/schemas/types"))
  return { name, encoderFor, idOf, checkSubject, inTime, reach }
})

/** Opens the schemas of a sink, for a scope. */
export const make = Effect.fnUntraced(function* (named: Named): Effect.fn.Return<Schemas, SinkError, Scope.Scope> {
  const whole = wholeSubject(named)
  const isTemplated = Template.hasPlaceholder(whole)
  const { name, encoderFor, idOf, checkSubject, inTime, reach } = yield* makeSubjects(named, isTemplated)
  const subjectOf = subjectsOf(named)
  const ids = new Map<string, { readonly id: number; readonly encode: Encode }>()
  const refused = new Map<string, SinkError>()

  const resolve = (subject: Subject) =>
    Effect.gen(function* () {
      const encode = yield* encoderFor(subject)
      ids.set(keyOf(subject), { id: yield* idOf(subject), encode })
      refused.delete(keyOf(subject))
    }).pipe(
      Effect.catchIf(isOneSubjects, (error) => {
        refused.set(keyOf(subject), error)
        return Effect.void
      }),
    )

  const prepare: Schemas["prepare"] = (entries) => {
    if (ids.size > maxSubjects) ids.clear()
    if (refused.size > maxSubjects) refused.clear()
    const missing = new Map<string, Subject>()
    for (const entry of entries) {
      const made = attempt(() => subjectOf(entry))
      // An event that can't be rendered is reported when it is encoded.
      if (Result.isFailure(made) || ids.has(keyOf(made.success))) continue
      missing.set(keyOf(made.success), made.success)
    }
    if (missing.size === 0) return Effect.void
    return inTime(Effect.forEach(missing.values(), resolve, { concurrency, discard: true }))
  }

  const frame: Schemas["frame"] = (entry, value) => {
    const subject = subjectOf(entry)
    const known = ids.get(keyOf(subject))
    if (known === undefined) return refused.get(keyOf(subject)) ?? unavailable(`${name}: the schema has no id yet`)
    const made = known.encode(value)
    if (!isMisfit(made)) return framed(known.id, made)
    const pointer = made.pointer === "" ? "the value" : `"${oneLine(made.pointer)}"`
    return unacceptable(`the event does not fit the schema of subject ${oneLine(subject.name)}: ${pointer} ${made.why}`)
  }

  const advise: Schemas["advise"] = (types = eventTypes) => {
    if (!isTemplated) return Effect.succeed([])
    const isOfType = namesType(named)
    const subjects = types.flatMap((type) =>
      possibleValues(whole, [type]).map((name): Subject => ({ name, type: isOfType ? type : "" })),
    )
    const advice = (subject: Subject) =>
      checkSubject(subject).pipe(
        Effect.as<ReadonlyArray<string>>([]),
        Effect.catchIf(isOneSubjects, ({ message }) => Effect.succeed([message])),
      )
    const all = new Map(subjects.map((subject) => [keyOf(subject), subject])).values()
    return Effect.map(inTime(Effect.forEach(all, advice, { concurrency })), (advice) => advice.flat())
  }
  const check = inTime(isTemplated ? reach : checkSubject({ name: whole, type: "" }))
  return { prepare, frame, check, advise }
})
