/** Alerts: digests and recoveries, and client details. */
import type { Line, Mutant } from "../Line.ts"
import { clients } from "./Clients.ts"
import { digests } from "./Digests.ts"

export const lines: ReadonlyArray<Line> = [digests, clients]
export const mutants: ReadonlyArray<Mutant> = [
  {
    gone: "what a receiver answers to client details is not kept",
    file: "src/enrichment/Clients.ts",
    find: "Effect.mapError(withoutAnswer)",
    replace: "Effect.mapError((error) => error)",
    line: clients.name,
  },
  {
    gone: "a digest goes when all of it is on disk",
    file: "src/delivery/lane/Intake.ts",
    find: "if (isMessage && due.length > 0 && !progress.isWhole(due))",
    replace: "if (!isMessage && due.length > 0 && !progress.isWhole(due))",
    line: "simulation",
    seed: 2003859,
  },
  {
    gone: "a window continues after a restart",
    file: "src/delivery/lane/RetryQueue.ts",
    find: "monotonic + remaining(one.due, one.delay, wall)",
    replace: "monotonic + 0 * remaining(one.due, one.delay, wall)",
    line: digests.name,
  },
  {
    gone: "a full group does not wait",
    file: "src/delivery/lane/RetryQueue.ts",
    find: "return this.#digestSize > 1 && waiting.length >= this.#digestSize",
    replace: "return this.#digestSize > 1 && waiting.length < 0",
    line: digests.name,
  },
  {
    gone: "all events of a digest get their attempt refunded",
    file: "src/delivery/lane/Outcome.ts",
    find: "for (const sequence of refunded) progress.refundAttempt(sequence)",
    replace: "for (const sequence of refunded.slice(0, 1)) progress.refundAttempt(sequence)",
    line: digests.name,
  },
  {
    gone: "a recovery waits behind its failure",
    file: "src/formats/Template.ts",
    find: "render(resolves === true ?",
    replace: "render(resolves === undefined ?",
    line: digests.name,
  },
  {
    gone: "a recovery follows its failure to the sink",
    file: "src/routing/Router.ts",
    find: "if (failure === undefined || resolving.size === 0) return []",
    replace: "if (failure === undefined || resolving.size >= 0) return []",
    line: digests.name,
  },
  {
    gone: "details are put into a copy",
    file: "src/enrichment/Clients.ts",
    find: "const open = body.subarray(0, body.lastIndexOf(brace))",
    replace:
      "const open = body.subarray(0, body.lastIndexOf(brace))\n  Object.assign(entry.event, { body: Buffer.concat([open, utf8.encode(',\"client\":' + JSON.stringify(client) + '}')]) })",
    line: clients.name,
  },
  {
    gone: "a record of another client is no answer",
    file: "src/enrichment/Clients.ts",
    find: "client.id !== undefined && client.id !== id",
    replace: "client.id === undefined && client.id !== id",
    line: clients.name,
  },
  {
    gone: "a record without any of the fields is no answer",
    file: "src/enrichment/Clients.ts",
    find: "if (fields.every((name) => client[name] === undefined)) return yield* noClient",
    replace: "",
    line: clients.name,
  },
  {
    gone: "what failed is asked for again",
    file: "src/enrichment/Clients.ts",
    find: "(Exit.isSuccess(exit) ? cache.lifetime : Duration.zero)",
    replace: "(Exit.isSuccess(exit) ? cache.lifetime : cache.lifetime)",
    line: clients.name,
  },
  {
    gone: "what the API says of an error is not repeated",
    file: "src/enrichment/Clients.ts",
    find: 'if (status !== 200) return yield* fail("failed", ',
    replace: 'if (status !== 200) return yield* fail("failed", body + ',
    line: clients.name,
  },
  {
    gone: "a redirect is not followed",
    file: "src/runtime/HttpTransport.ts",
    find: 'redirect: "manual", decompress',
    replace: 'redirect: "follow", decompress',
    line: clients.name,
  },
  {
    gone: "a sink's answer is not repeated",
    file: "src/sinks/http/HttpAnswer.ts",
    find: "const message = ",
    replace: "const message = text() + ",
    line: clients.name,
  },
  {
    gone: "a sink that does not ask gets no details",
    file: "src/delivery/LaneSpec.ts",
    find: "enrich === undefined || api === undefined",
    replace: "api === undefined",
    line: clients.name,
  },
]
