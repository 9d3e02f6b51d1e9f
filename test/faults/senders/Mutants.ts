/** Guards against hostile senders, each removed on purpose. */
import { mutantsOf } from "../Line.ts"

const signature = "src/event/Signature.ts"
const envelope = "src/event/Envelope.ts"
const ingest = "src/ingest/Ingest.ts"
const bodies = "src/ingest/Bodies.ts"
const guard = "src/runtime/RequestGuard.ts"
const template = "src/formats/Template.ts"
const pattern = "src/routing/Pattern.ts"

export const mutants = mutantsOf({
  flood: {
    "a webhook may take all of the quarantine": [
      "src/journal/stream/Backlog.ts",
      'if (own < free) return ""',
      'if (free > 0) return ""',
    ],
  },
  requests: {
    "a signature is not compared": [
      signature,
      "if (!timingSafeEqual(secret.hmac(body), claimed)) continue",
      "secret.hmac(body)",
    ],
    "a signature's first byte is not compared": [
      signature,
      "timingSafeEqual(secret.hmac(body), claimed)",
      "timingSafeEqual(secret.hmac(body).subarray(1), claimed.subarray(1))",
    ],
    "lowercase digits count": [
      signature,
      "digitValues[digit.charCodeAt(0)] = value",
      "digitValues[digit.toLowerCase().charCodeAt(0)] = digitValues[digit.charCodeAt(0)] = value",
    ],
    "what follows a signature is not looked at, nor a second one": [
      signature,
      "header.length !== headerLength",
      "header.length < headerLength",
    ],
    "the prefix is not looked at": [signature, " || !header.startsWith(prefix)", ""],
    "the Host is not looked at": [guard, "if (!hasHost && !isHostless(received))", "if (false)"],
    "the length is not looked at": [guard, "declared !== null && !length.test(declared)", "false"],
    "any method delivers": [ingest, 'if (request.method !== "POST")', "if (false)"],
    "any content type will do": [ingest, 'if (!isJson(headers.get("content-type")))', "if (false)"],
    "any encoding will do": [ingest, '!isIdentity(headers.get("content-encoding"))', "false"],
    "a body without a declared length has no limit": [bodies, "needed > max", "false"],
    "text is kept instead of bytes": [
      ingest,
      "        receivedAt,\n        body,\n",
      "        receivedAt,\n        body: new TextEncoder().encode(new TextDecoder().decode(body)),\n",
    ],
    "a refusal tells the signature that would be right": [
      ingest,
      "bodies.free(body)\n        return refuse(request, name, signatureRefusals[authentic.reason])",
      'return Response.json({ detail: Buffer.from(first.secrets[0]?.hmac(body) ?? []).toString("hex") }, { status: 401 })',
    ],
    "the sender may make events of the relay's own": ["src/ingest/Ingest.ts", "if (isRelayEvent(type))", "if (false)"],
    "an id that must be named need not be": [
      "src/routing/Router.ts",
      "receivers.filter(({ webhook }) => !webhook.strictId)",
      "receivers",
    ],
    "a byte order mark is passed over": [envelope, ", ignoreBOM: true", ""],
  },
  "fuzz-headers": {
    "an expired secret verifies": [signature, "secret.expiresAt === undefined || now < secret.expiresAt", "true"],
    "a Host may be anything that begins as one": [guard, "(?::[0-9]{1,5})?$/", "(?::[0-9]{1,5})?/"],
    "a content type may go on": [ingest, "\\s*(?:;|$)/i", "/i"],
  },
  "requests-deno": {
    "the Host is not looked at": [guard, "if (!hasHost && !isHostless(received))", "if (false)"],
    "the length is not looked at": [guard, "declared !== null && !length.test(declared)", "false"],
    "a declared length has no limit": [bodies, "declared !== undefined && declared > max", "false"],
  },
  "fuzz-json": {
    "bad UTF-8 is mended": [envelope, "fatal: true", "fatal: false"],
    "any JSON is an envelope": [
      envelope,
      "isEnvelope(value.success) ? limited(value.success) : Result.fail({ problem: describe(value.success) })",
      "Result.succeed(value.success as Envelope)",
    ],
    "an object may be null": [
      envelope,
      "Schema.declare(Predicate.isObject)",
      "Schema.declare(Predicate.isObjectOrArray)",
    ],
    "an envelope's own texts have no limit": [
      envelope,
      "const long = longField(envelope)",
      "const long = longField(envelope) && undefined",
    ],
  },
  slow: {
    "bodies are read one after the other": [
      bodies,
      "return isSmall(declared)",
      `const line = gauge as { bytesInFlight: number; turn?: Promise<unknown> }
      const before = line.turn
      line.turn = before === undefined ? request.clone().arrayBuffer() : before.then(() => request.clone().arrayBuffer())
      if (before !== undefined) return before.then(() => readCounted(request, max, isVerified))
      return isSmall(declared)`,
    ],
  },
  claims: {
    "a body takes the room that it announces": [
      bodies,
      "      held: 0,\n",
      "      held: 0 * (gauge.bytesInFlight += Number(request.headers.get('content-length'))),\n",
    ],
    "a body that came in part does not give way": [bodies, '    reading.cancel("tooMany")\n', ""],
  },
  "fuzz-patterns": {
    "a pattern reaches the relay's own events": [pattern, "isRelayEvent(type) === namesRelay &&", ""],
    "a type need not be a dotted name": [pattern, "dotted.test(type) &&", ""],
    "a brace may hold one choice": [pattern, "if (!choice)", "if (false)"],
  },
  "fuzz-expressions": {
    "a wrong expression throws where it is compiled": [
      "src/formats/jmespath/Jmespath.ts",
      "wrong === undefined ? compiled(text, known)",
      "wrong !== text ? compiled(text, known)",
    ],
    "an object of the event passes for an expression": [
      "src/formats/jmespath/Evaluator.ts",
      "object !== undefined && Object.hasOwn(object, name)",
      "object !== undefined",
    ],
  },
  "fuzz-templates": {
    "dots climb out of a path": [template, "/^\\.+$/.test(value)", "false"],
    "a value in a header is not escaped": [template, "header: escapeHeader", "header: (value) => value"],
    "a value in a url is not escaped": [template, "url: escapeUrl", "url: (value) => value"],
    "half a character is not mended": [template, "odd.toWellFormed()", "odd"],
  },
  "fuzz-config": {
    "a config's texts are shown": [
      "src/config/diagnostics/Syntax.ts",
      "isText(piece.kind) && !(isAt && showsValue) && !piece.isKey",
      "false",
    ],
    "a column is counted from the file's start": [
      "src/config/diagnostics/Source.ts",
      "offset - (starts[line - 1] ?? 0) + 1",
      "offset",
    ],
  },
  growth: {
    "a config is read once a mistake": [
      "src/config/diagnostics/Source.ts",
      "tokens ??= tokensOf(text)",
      "tokens = tokensOf(text)",
    ],
  },
})
