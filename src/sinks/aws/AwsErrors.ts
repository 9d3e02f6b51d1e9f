/**
 * Errors of AWS, as the SDK throws them and as a batch's answer reports them:
 * the reason for the lane, and the message for a person.
 *
 * **Guarantee.** A message quotes AWS's own text only if the code is unknown and
 * not about an event: the text may hold the event, or the request that was
 * signed. For a denial it names the action and the kind of policy. If AWS refuses
 * an event, its text is the answer that is kept with the attempt.
 */
import { Redacted } from "effect"
import { quoting } from "../../event/Quoted.ts"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import { oneLine } from "../ServiceWords.ts"
import { failed, misconfigured, rejected, type SinkError, throttled, unacceptable, unavailable } from "../Sink.ts"

/** A failed request, or a failed entry of one. */
export interface AwsError {
  /** AWS's error code, such as `NotFound`; empty when there is none. */
  readonly code: string
  /** AWS's message; it may hold anything. */
  readonly detail: string
  /** The HTTP status; 0 without an answer. */
  readonly status: number
  readonly transport: HttpTransport.Failure
  /** Whether no credentials were found. */
  readonly isUnsigned: boolean
  /** The source of credentials that failed, if it is known. */
  readonly source?: CredentialSource | undefined
  /** The role that STS refused. Empty if the error is the service's. */
  readonly role: string
  /** `Retry-After` in milliseconds. */
  readonly retryAfter?: number
  /** The answer is XML, but the SDK expects JSON. Servers that know only a service's older protocol send XML. */
  readonly isXml?: boolean
}

/** STS refused the role. The SDK alone would throw this as if the service had answered. */
export class RoleRefused extends Error {
  readonly role: string
  constructor(role: string, cause: unknown) {
    super("", { cause })
    this.role = role
  }
}

/** A source of credentials that failed, with its own words. */
export interface CredentialSource {
  readonly name: string
  readonly words: string
  /** Whether the source refuses the request, so that waiting doesn't help. */
  readonly isRefusal: boolean
}

/** No credentials were found. */
export class NoCredentials extends Error {
  readonly source: CredentialSource | undefined
  constructor(source: CredentialSource | undefined, cause: unknown) {
    super("", { cause })
    this.source = source
  }
}

/** The parts of a service's errors that differ from those of other services. */
export interface Service {
  readonly name: string
  /** The kind of target: `topic`. */
  readonly thing: string
  /** The config key of the service's address. */
  readonly endpointKey: string
  /** The rights that are needed: `sns:Publish and sns:GetTopicAttributes on the topic`. */
  readonly rights: string
  /** The service's own codes that need a person, each with advice. */
  readonly advice: Readonly<Record<string, string>>
  /** The service's own codes about one message. */
  readonly messages?: ReadonlyArray<string>
}

/** The names that a message shows. */
export interface Place {
  readonly service: Service
  /** The name of the target. */
  readonly name: string
  /** The configured endpoint; empty for AWS's own. */
  readonly endpoint: string
  /** The configured profile; empty without one. */
  readonly profile: string
}

/** The part of the SDK's errors that is read. */
interface Thrown {
  readonly name?: unknown
  readonly __type?: unknown
  readonly message?: unknown
  readonly Code?: unknown
  readonly $metadata?: { readonly httpStatusCode?: number }
  readonly $response?: { readonly headers?: Readonly<Record<string, string>> }
}

/**
 * Returns a code without the parts that differ between services:
 * `AWS.SimpleQueueService.NonExistentQueue`, `KmsNotFound`. `KMS.NotFoundException`
 * keeps its first part, which names the service that failed.
 */
const wordOf = (code: unknown): string => {
  // Some services write an address behind a colon.
  const [word = ""] = typeof code === "string" ? code.split(":") : []
  return /^[A-Za-z.#]{1,128}$/.test(word)
    ? word
        .replace(/^(?:.*[.#])?KMS[.#]/i, "KMS")
        .replace(/^.*[.#]/, "")
        .replace(/Exception$/, "")
        .replace(/^Kms/, "KMS")
    : ""
}

/** AWS's own code: in `Code` of the services that speak XML, in `__type` of those that speak JSON; an error's name may be the SDK's. */
const codeOf = ({ Code, __type }: Thrown): string => wordOf(Code) || wordOf(__type)

const seconds = 1_000

/** The wait of a `Retry-After` in seconds. */
const waitOf = (asked: string) => (/^\d{1,4}$/.test(asked) ? { retryAfter: Number(asked) * seconds } : {})

export const ofThrown = (thrown: unknown): AwsError => {
  if (thrown instanceof NoCredentials) {
    const { source } = thrown
    return { code: "", detail: "", status: 0, transport: "other", isUnsigned: true, role: "", source }
  }
  const [error, role] = thrown instanceof RoleRefused ? [thrown.cause, thrown.role] : [thrown, ""]
  const read: Thrown = error instanceof Error ? error : {}
  const { name, message, $metadata, $response } = read
  const { "retry-after": asked = "", "content-type": type = "" } = $response?.headers ?? {}
  const code = codeOf(read)
  return {
    code,
    detail: String(message),
    status: $metadata?.httpStatusCode ?? 0,
    // With a code there was an answer, so its text says nothing about the connection.
    transport: code === "" ? HttpTransport.failureOf(error) : "other",
    isUnsigned: code === "" && /Credentials|Provider|Token|SSO/.test(String(name)),
    role,
    ...waitOf(asked),
    isXml: name === "SyntaxError" && /xml/.test(type),
  }
}

/** The parts of an answer whose request the SDK did not make. `retryAfter` is the header, or empty. */
interface Answered {
  readonly code: string
  readonly detail: string
  readonly status: number
  readonly retryAfter: string
}

export const ofAnswer = ({ code, retryAfter, ...answer }: Answered): AwsError => ({
  ...answer,
  code: wordOf(code),
  transport: "other",
  isUnsigned: false,
  role: "",
  ...waitOf(retryAfter),
})

const wrongSecret = "the secret of the access key is wrong: correct the credentials"
const wrongSignature = "the secret of the access key is wrong, or this machine's clock is: correct it"
const wrongClock = "this machine's clock is wrong: set it"
const unknownKey =
  "AWS does not know this access key, or not its session token in this region: correct the credentials; a region that is off by default needs a token of its own STS endpoint"

/** Codes that need a person, each with advice. */
const advice: Readonly<Record<string, string>> = {
  InvalidClientTokenId: unknownKey,
  UnrecognizedClient: unknownKey,
  InvalidAccessKeyId: unknownKey,
  MissingAuthenticationToken: "the request carries no credentials: set them",
  SignatureDoesNotMatch: wrongSignature,
  InvalidSignature: wrongSignature,
  IncompleteSignature: "the access key is not written as one is: correct the credentials",
  InvalidSecurity: "AWS can't verify the signature: correct the credentials",
  ExpiredToken: "the session token has expired: renew the credentials",
  RequestExpired: wrongClock,
  RequestTimeTooSkewed: wrongClock,
  RequestInTheFuture: wrongClock,
  UnknownOperation: "the service does not know this request: it is probably an emulator that is too old",
  OptInRequired: "the account is not subscribed to the service in this region",
  ValidationError: 'AWS refuses how the role is asked for: correct "role"',
}

/** The codes of the target's encryption key. */
const keyAdvice = (thing: string): Readonly<Record<string, string>> => ({
  KMSAccessDenied: `the relay may not use the key that encrypts the ${thing}: grant kms:GenerateDataKey and kms:Decrypt on it`,
  KMSDisabled: `the key that encrypts the ${thing} is disabled: enable it`,
  KMSInvalidState: `the key that encrypts the ${thing} can't be used as it is: correct it`,
  KMSInvalidKeyUsage: `the key that encrypts the ${thing} is of another kind: give the ${thing} another`,
  KMSNotFound: `the key that encrypts the ${thing} is gone: give the ${thing} another`,
  KMSOptInRequired: "the account is not subscribed to KMS in this region",
})

/** Says why a signature is wrong, if AWS's text shows it. */
const ofSignature = ({ code, detail }: AwsError): string | undefined => {
  if (advice[code] !== wrongSignature) return undefined
  if (/^Signature (expired|not yet current)/.test(detail)) return wrongClock
  return /^The request signature we calculated does not match/.test(detail) ? wrongSecret : undefined
}

/** Whether AWS refuses the credentials, so that they may have been replaced at their source. */
export const isOfCredentials = (error: AwsError): boolean =>
  advice[error.code] === unknownKey ||
  error.code === "ExpiredToken" ||
  error.code === "InvalidSecurity" ||
  ofSignature(error) === wrongSecret

/** Codes of a request that may succeed later, whatever its status is. */
const isPassing = (code: string): boolean =>
  /^(RequestAborted|RequestTimeout|ServiceUnavailable|Internal(Failure|Error|ServerError)|KMSInternal)$/.test(code)

/** Reports whether a code means that the credentials don't allow the request. */
export const isDenial = (code: string): boolean =>
  /^(AuthorizationError|AccessDenied|AuthFailure|NotAuthorized|UnauthorizedOperation)$/.test(code)
/** Reports whether AWS answered that the credentials don't allow the request. */
export const isDenied = (thrown: unknown): boolean => thrown instanceof Error && isDenial(codeOf(thrown))

const isThrottling = (code: string): boolean =>
  /Throttl|^(TooManyRequests|RequestLimitExceeded|SlowDown|PriorRequestNotComplete)$/.test(code)
/** Codes about one message. Any other code may concern every message. */
const isMessages = (code: string, { messages = [] }: Service): boolean =>
  /^(InvalidParameter|InvalidParameterValue|Validation)$/.test(code) || messages.includes(code)
const isTooLong = ({ code, detail }: AwsError, service: Service): boolean =>
  code === "BatchRequestTooLong" ||
  (isMessages(code, service) && /too long|must be shorter than|over the limit/i.test(detail))

const denied = ({ detail, role }: AwsError, { rights, thing }: Service): string => {
  if (role !== "") return "the credentials may not assume it: grant sts:AssumeRole, and let the role trust them"
  const [, of, name] = /perform:\s*([A-Za-z0-9-]{1,32}):([A-Za-z]{1,64})/.exec(detail) ?? []
  if (of === undefined) {
    return `the credentials don't allow this: grant ${rights}, in the ${thing}'s own policy too if it is of another account`
  }
  const action = `${of.toLowerCase()}:${name}`
  const [, denying] = /explicit deny in an? ([A-Za-z -]{1,40}?(?:policy|boundary))/.exec(detail) ?? []
  if (denying !== undefined)
    return `${/^[aeiou]/.test(denying) ? "an" : "a"} ${denying} denies ${action}: allow it there`
  const [, silent = "identity-based policy"] = /because no ([A-Za-z -]{1,40}?) allows/.exec(detail) ?? []
  return silent === "identity-based policy"
    ? `the credentials lack ${action}: grant it`
    : `no ${silent} allows ${action}: allow it there`
}

const unsigned = (at: string, { profile }: Place, source: CredentialSource | undefined): SinkError => {
  if (source !== undefined) {
    const { name, words, isRefusal } = source
    const message = `${at}: ${name} gives no credentials: ${words}`
    return isRefusal ? misconfigured(message) : unavailable(message)
  }
  return misconfigured(
    profile === ""
      ? `${at}: no credentials were found: set "credentials" or "profile", AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role`
      : `${at}: the profile ${profile} gives no credentials: look into ~/.aws/config and ~/.aws/credentials, or correct "profile"`,
  )
}

const misdirected = (status: number, { endpoint, service }: Place, role = "", isXml = false): string => {
  if (isXml && role === "") {
    return `what answers there (${status}) speaks XML: it is probably an emulator that knows only the older protocol of ${service.name}; update it, or correct "${service.endpointKey}"`
  }
  return endpoint === "" || role !== ""
    ? `what answers there (${status}) is not AWS: look for a proxy on the way`
    : `what answers at ${endpoint} (${status}) is not ${service.name}: correct "${service.endpointKey}"`
}

/** AWS's own text about an event. It holds nothing of the credentials: those errors have codes of their own. */
const textOf = (detail: string) => (detail === "" ? {} : { answer: Redacted.make(oneLine(detail)) })

/** The SDK's message for an error without one. */
const noWords = "UnknownError"

/** The wait if AWS names none, in milliseconds. */
const pause = 1 * seconds

/** The reason for a code that means the same for a request and an entry; `undefined` for any other. */
const ofCode = (error: AwsError, at: string, service: Service): SinkError | undefined => {
  const { code, retryAfter = pause } = error
  if (isThrottling(code)) return throttled(`${at} asks to slow down (${code})`, retryAfter)
  if (isDenial(code)) return misconfigured(`${at}: ${denied(error, service)}`)
  // The code comes from outside, and `constructor` is a property of every object.
  const table = [service.advice, advice, keyAdvice(service.thing)].find((table) => Object.hasOwn(table, code))
  const todo = ofSignature(error) ?? table?.[code]
  if (todo !== undefined) return misconfigured(`${at}: ${todo} (${code})`)
  if (isTooLong(error, service)) return unacceptable(`${at} finds the event too large (${code})`)
  return undefined
}

export const placeOf = ({ service, name, endpoint }: Place, role = ""): string =>
  role === ""
    ? `${service.name} ${service.thing} ${name}${endpoint === "" || name.startsWith(endpoint) ? "" : ` at ${endpoint}`}`
    : `AWS STS (for the role ${role})`

/** The reason for a failed request. */
export const sinkErrorOf = (error: AwsError, place: Place): SinkError => {
  const { code, detail, status, transport, isUnsigned, source, role, retryAfter, isXml } = error
  const { service } = place
  const at = placeOf(place, role)
  const known = ofCode(error, at, service)
  if (known !== undefined) return known
  // A topic of another region is refused as an invalid parameter, although the event is fine.
  if (isMessages(code, service) && /^Invalid parameter: TopicArn/.test(detail)) {
    return misconfigured(`${at}: SNS refuses the topic's name: correct "topicArn" or "region" (${code})`)
  }
  if (transport === "no HTTP" || transport === "no HTTP/1.1") {
    return misconfigured(`${at}: what answers there does not speak HTTP/1.1: correct "${service.endpointKey}"`)
  }
  if (HttpTransport.passing[transport] === undefined) {
    return misconfigured(
      `${at}: no TLS with it (${transport}): check "${service.endpointKey}" and the clock; NODE_EXTRA_CA_CERTS names authorities of one's own`,
    )
  }
  if (transport !== "other") return unavailable(`${at} can't be reached: ${HttpTransport.passing[transport]}`)
  if (isUnsigned) return unsigned(at, place, source)
  if (status === 0) return unavailable(`${at} can't be reached: the request failed`)
  if (status === 429 || (status === 503 && retryAfter !== undefined)) {
    return throttled(`${at} asks to slow down (${status})`, retryAfter ?? pause)
  }
  const answer = code === "" ? `${status}` : `${status}, ${code}`
  if (status >= 500 || status === 408 || isPassing(code)) return unavailable(`${at} can't take events now (${answer})`)
  if (status === 413) return unacceptable(`${at} finds the event too large (413)`)
  if (isMessages(code, service) && role === "") {
    return rejected(`${at} refused the event (${answer})`, textOf(detail))
  }
  if (code === "") return misconfigured(`${at}: ${misdirected(status, place, role, isXml)}`)
  return misconfigured(
    `${at}: AWS refuses the relay's request (${answer})${quoting(detail === noWords ? "" : oneLine(detail))}`,
  )
}

/** A failed entry of a batch, as the answer has it. */
export interface Refused {
  readonly code: string | undefined
  readonly detail: string | undefined
  /** Whether the message is to blame, if the service says so. */
  readonly senderFault?: boolean | undefined
}

/** The reason for a failed entry of a batch. If the code doesn't decide, `senderFault` does. */
export const entryErrorOf = ({ code: rawCode, detail = "", senderFault }: Refused, place: Place): SinkError => {
  const code = wordOf(rawCode)
  const error: AwsError = { code, detail, status: 200, transport: "other", isUnsigned: false, role: "" }
  const at = placeOf(place)
  const known = ofCode(error, at, place.service)
  if (known !== undefined) return known
  const named = code === "" ? "" : ` (${code})`
  return (senderFault ?? isMessages(code, place.service))
    ? rejected(`${at} refused the event${named}`, textOf(detail))
    : failed(`${at} failed to take the event${named}`, textOf(detail))
}

/** An answer without any of the batch's entries isn't from the service, whatever its status. */
export const notTheService = (place: Place): SinkError => misconfigured(`${placeOf(place)}: ${misdirected(200, place)}`)

/** The error for an entry that the answer doesn't name: nobody knows whether it was sent. */
export const unnamed = (place: Place): SinkError => failed(`${placeOf(place)} did not say what became of the event`)

/** `smaller` is advice for an event that is too large. */
export const tooLarge = (place: Place, bytes: number, most: number, smaller: string): SinkError =>
  unacceptable(
    `${placeOf(place)}: an event of ${bytes} bytes with all that goes along is larger than the ${most} that ${place.service.name} takes: ${smaller}, or send it to another sink`,
  )
