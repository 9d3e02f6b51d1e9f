/** Alerts: digests and recoveries, and client details. */
import { type Line, mutantsOf } from "../Line.ts"
import { clients } from "./Clients.ts"
import { digests } from "./Digests.ts"

export const lines: ReadonlyArray<Line> = [digests, clients]
export const mutants = mutantsOf({
  [clients.name]: {
    "what a receiver answers to client details is not kept": [
      "src/enrichment/Clients.ts",
      "Effect.mapError(withoutAnswer)",
      "Effect.mapError((error) => error)",
    ],
    "details are put into a copy": [
      "src/enrichment/Clients.ts",
      "const open = body.subarray(0, body.lastIndexOf(brace))",
      "const open = body.subarray(0, body.lastIndexOf(brace))\n  Object.assign(entry.event, { body: Buffer.concat([open, utf8.encode(',\"client\":' + JSON.stringify(client) + '}')]) })",
    ],
    "a record of another client is no answer": [
      "src/enrichment/Clients.ts",
      "client.id !== undefined && client.id !== id",
      "client.id === undefined && client.id !== id",
    ],
    "a record without any of the fields is no answer": [
      "src/enrichment/Clients.ts",
      "if (fields.every((name) => client[name] === undefined)) return yield* noClient",
      "",
    ],
    "what failed is asked for again": [
      "src/enrichment/Clients.ts",
      "(Exit.isSuccess(exit) ? cache.lifetime : Duration.zero)",
      "(Exit.isSuccess(exit) ? cache.lifetime : cache.lifetime)",
    ],
    "what the API says of an error is not repeated": [
      "src/enrichment/Clients.ts",
      'if (status !== 200) return yield* fail("failed", ',
      'if (status !== 200) return yield* fail("failed", body + ',
    ],
    "a redirect is not followed": [
      "src/runtime/HttpTransport.ts",
      'redirect: "manual", decompress',
      'redirect: "follow", decompress',
    ],
    "a sink's answer is not repeated": [
      "src/sinks/http/HttpAnswer.ts",
      "const message = ",
      "const message = text() + ",
    ],
    "a sink that does not ask gets no details": [
      "src/delivery/LaneSpec.ts",
      "enrich === undefined || api === undefined",
      "api === undefined",
    ],
  },
  "test/delivery/References.test.ts": {
    "the reference to a message is stored with its alert": [
      "src/delivery/lane/Outcome.ts",
      "    this.#keepReference(attempt)\n",
      "",
    ],
    "a reference is of one alert": [
      "src/delivery/lane/Alerts.ts",
      "return state.id <= sequence ? state : state.earlier?.find(({ id }) => id <= sequence)",
      "return state",
    ],
  },
  "test/delivery/Alerts.test.ts": {
    "a message of quiet hours is not overtaken": [
      "src/delivery/lane/Alerts.ts",
      "wait > 0 || waits(together) ? together : key",
      "wait > 0 ? together : key",
    ],
  },
  "test/delivery/AlertModel.test.ts": {
    "an alert ends by itself only after the time without failures": [
      "src/delivery/lane/Alerts.ts",
      " || at < state.last + Duration.toMillis(policy.resolveAfter)",
      "",
    ],
    "the end of a mute says nothing if nothing has changed": [
      "src/delivery/lane/Alerts.ts",
      "(mute.isOpen && state.count === mute.count)",
      "false",
    ],
  },
  "test/sinks/alerts/slack/SlackApi.test.ts": {
    "a message that is gone is posted again": [
      "src/sinks/alerts/slack/Slack.ts",
      'const gone = ["message_not_found", ',
      'const gone = ["",',
    ],
    "a part of a message that was posted is not posted again": [
      "src/sinks/alerts/slack/Slack.ts",
      "referring(error, reference)",
      "error",
    ],
  },
  "test/delivery/Digest.test.ts": {
    "a digest goes when all of it is on disk": [
      "src/delivery/lane/Intake.ts",
      "if (mustBeWhole && due.length > 0 && !progress.isWhole(due))",
      "if (alerts !== undefined && due.length > 0 && !progress.isWhole(due))",
    ],
  },
  "test/delivery/lane/RetryQueue.test.ts": {
    "a digest in flight is not joined by another of its group": [
      "src/delivery/lane/RetryQueue.ts",
      "if (!this.#isInFlight(head.key)) due.push(head)",
      "due.push(head)",
    ],
    "what was retrying without a group goes by itself": [
      "src/delivery/lane/RetryQueue.ts",
      'if (isIsolated(first.sequence) || first.key === "") return [first]',
      "if (isIsolated(first.sequence)) return [first]",
    ],
  },
  [digests.name]: {
    "a window continues after a restart": [
      "src/delivery/lane/RetryQueue.ts",
      "monotonic + remaining(one.due, one.delay, wall)",
      "monotonic + 0 * remaining(one.due, one.delay, wall)",
    ],
    "a full group does not wait": [
      "src/delivery/lane/RetryQueue.ts",
      "return this.#digestSize > 1 && waiting.length >= this.#digestSize",
      "return this.#digestSize > 1 && waiting.length < 0",
    ],
    "all events of a digest get their attempt refunded": [
      "src/delivery/lane/Outcome.ts",
      "for (const sequence of refunded) progress.refundAttempt(sequence)",
      "for (const sequence of refunded.slice(0, 1)) progress.refundAttempt(sequence)",
    ],
    "a recovery waits behind its failure": [
      "src/formats/Template.ts",
      "render(alert?.resolves === true ?",
      "render(alert?.resolves === undefined ?",
    ],
    "a recovery follows its failure to the sink": [
      "src/routing/Router.ts",
      "if (failure === undefined || resolving.size === 0) return []",
      "if (failure === undefined || resolving.size >= 0) return []",
    ],
  },
})
