/** Public reports about receiving webhooks. */
import type { Catalogue } from "./Report.ts"

export const catalogue: Catalogue = {
  title: "Reports about receiving webhooks",
  reports: [
    {
      report: "https://github.com/haproxy/haproxy/issues/1861",
      symptom: "The log goes to a pipe whose reader is slow: lines are lost, and nothing reports the loss.",
      verdict: "wrong",
      test: "test/e2e/stdio.test.ts > answers deliveries, refusals and probes, counts the lines that it drops, and says how many in the log",
    },
    {
      report: "https://github.com/oven-sh/bun/pull/33560",
      symptom: "A server makes its stdout non-blocking, so other processes that share the pipe lose output.",
      verdict: "wrong",
      test: "test/e2e/stdio.test.ts > delivers to other sinks, and to the console all that it has once it is read again",
    },
    {
      report: "https://github.com/nick-pape/grackle/issues/1263",
      symptom: "A webhook body over the limit ends in a connection reset; the sender never reads the 413.",
      verdict: "wrong",
      test: "test/e2e/http/refusedBodies.test.ts > with a length and in chunks, on connections that stay and that close",
    },
    {
      report: "https://github.com/kubernetes/kubernetes/issues/86280",
      symptom:
        "Connections are refused during a rolling update, because a pod stops listening before the others notice.",
      verdict: "wrong",
      test: "test/e2e/stop.test.ts > two relays that are restarted in turn refuse nothing, though their load balancer notices each stop late",
    },
    {
      report: "https://github.com/nuetzliches/hookaido/issues/275",
      symptom:
        "The config file is mounted by itself and replaced by rename: watching reports nothing, and the old config stays.",
      verdict: "wrong",
      test: "test/e2e/reload.test.ts > names the file and its last change, and refuses one that was replaced outside the container",
    },
    {
      report: "https://github.com/n8n-io/n8n/issues/26925",
      symptom: "An integer above 2^53 in a webhook is taken for another number.",
      verdict: "wrong",
      test: "test/ingest/ExactNumbers.test.ts > holds for that number alone, however either is written",
    },
    {
      report: "https://github.com/haproxy/haproxy/issues/2704",
      symptom: "The clock jumps while the server runs, and clients' connections are reset.",
      verdict: "wrong",
      test: "test/ingest/Ingest.test.ts > has its time and no more if the wall clock is set by",
    },
    {
      report: "https://github.com/oven-sh/bun/issues/10265",
      symptom: "Memory grows with every body that is posted.",
      verdict: "wrong",
      test: "test/ingest/Ingest.test.ts > leaves nothing to the collector: its chunks and the body are freed when they are no longer needed",
    },
    {
      report: "https://github.com/oven-sh/bun/pull/33721",
      symptom: "The default health check of HAProxy, by HTTP/1.0 and without a Host, fails on a healthy server.",
      verdict: "wrong",
      test: "test/admin/Server.test.ts > is answered if it is a probe",
    },
    {
      report: "https://github.com/oven-sh/bun/pull/33072",
      symptom: "A Host that can't be in a URL becomes part of the request's URL, and parsing it throws.",
      verdict: "poor",
      test: "test/e2e/admin.test.ts > refuses a Host that no URL can have, and takes no odd path for a bug",
    },
    {
      report: "https://github.com/oven-sh/bun/pull/34843",
      symptom: "A command that starts in a deleted directory fails with an internal error that names no directory.",
      verdict: "poor",
      test: "test/e2e/environment.test.ts > in a working directory that was deleted says so",
    },
    {
      report: "https://github.com/adnanh/webhook/issues/36",
      symptom: "The file of hooks is missing, and the program runs without a word about it.",
      verdict: "poor",
      test: "test/e2e/reload.test.ts > says that the config is %s, and goes on when it is back",
    },
    {
      report: "https://github.com/kubernetes/ingress-gce/issues/647",
      symptom: "The load balancer checks the port that it sends requests to, but the probe is on another port.",
      verdict: "poor",
      test: "test/e2e/admin.test.ts > probes are answered on the delivery port where the config says so, and nothing else of the admin API",
    },
    {
      report: "https://github.com/oven-sh/bun/issues/12446",
      symptom:
        "A load balancer reuses a connection that the server closed as idle; no setting keeps it open for longer.",
      verdict: "poor",
      test: "test/runtime/Runtime.test.ts > is closed after the idle timeout",
    },
    {
      report: "https://github.com/voxpupuli/puppet-r10k/issues/510",
      symptom: "The webhook server sends its certificate without the intermediate, so senders don't trust it.",
      verdict: "poor",
      test: "test/cli/support/statusReport.test.ts > reports a certificate's chain that is not complete, and notes one whose issuer is unknown",
    },
    {
      report: "https://github.com/mozilla/jira-bugzilla-integration/issues/193",
      symptom: "The sender disabled its webhook, and no alert says that no requests arrive any more.",
      verdict: "poor",
      test: "test/ingest/SenderSilence.test.ts > is silent after silentAfter without a delivery, and no longer once it sends again",
    },
    {
      report: "https://github.com/grafana/grafana/pull/103180",
      symptom: "The receiver doesn't store when the last event arrived, so nobody sees whether the webhook works.",
      verdict: "poor",
      test: "test/ingest/LastDeliveries.test.ts > is read from the journal at the start, once the journal answers",
    },
    {
      report: "https://github.com/adnanh/webhook/pull/355",
      symptom: "While its secret is rotated, a sender puts two signatures in one header, and the delivery is refused.",
      verdict: "poor",
      test: "test/event/Signature.test.ts > when there are several that differ, one of them right",
    },
    {
      report: "https://github.com/denoland/deno/issues/5269",
      symptom:
        "A server that listens on all addresses is on IPv4 only; a client whose localhost is IPv6 can't reach it.",
      verdict: "poor",
      test: "test/runtime/Runtime.test.ts > that is * takes connections of IPv4 and IPv6, and is taken then for both",
    },
    {
      report: "https://github.com/oven-sh/bun/pull/28838",
      symptom: "A request has two Content-Length headers that differ, and the server reads the first.",
      verdict: "right",
      test: "test/e2e/http/http.test.ts > two different Content-Lengths",
    },
    {
      report: "https://github.com/oven-sh/bun/pull/33664",
      symptom: "A second request on the connection arrives before the first is answered, and both get no response.",
      verdict: "right",
      test: "test/e2e/http/http.test.ts > pipelined deliveries: what is answered 202 is kept, and what is not may be sent again",
    },
    {
      report: "https://github.com/adnanh/webhook/issues/85",
      symptom: "The response to a wrong signature contains the right one.",
      verdict: "right",
      test: "test/e2e/canary.test.ts > no secret and nobody's data is in a log, a metric, an answer or a crash",
    },
    {
      report: "https://github.com/octokit/webhooks.js/issues/158",
      symptom:
        "GitHub's default content type is a form; the receiver parses it as JSON and fails without a clear reason.",
      verdict: "right",
      test: "test/e2e/http/http.test.ts > with 415 when the content type is not JSON, or the body is encoded",
    },
    {
      report: "https://github.com/octokit/webhooks.js/issues/770",
      symptom: "Only one secret can be active, so deliveries fail while it is rotated.",
      verdict: "right",
      test: "test/e2e/reload.test.ts > rotates a secret without a gap",
    },
    {
      report: "https://github.com/octokit/webhooks.js/issues/1155",
      symptom: "The signature of a payload with an emoji doesn't verify, because text is hashed instead of bytes.",
      verdict: "right",
      test: "test/e2e/http/http.test.ts > a signed body with a byte order mark, and one that is no UTF-8, are verified by their bytes",
    },
    {
      report: "https://github.com/stripe/stripe-node/issues/341",
      symptom: "A parser changed the body before the signature was checked, so it doesn't match.",
      verdict: "right",
      test: "test/e2e/http/http.test.ts > a signed delivery is answered 202 and reaches the sink byte by byte",
    },
    {
      report: "https://github.com/zenml-io/zenml/issues/5215",
      symptom: "The sender repeats a delivery that was answered late, and the event is processed twice.",
      verdict: "right",
      test: "test/e2e/http/http.test.ts > a duplicate is answered 202 and kept once",
    },
    {
      report: "https://github.com/coollabsio/coolify/pull/9119",
      symptom: "A GitHub event of an unexpected type is answered with 500.",
      verdict: "right",
      test: "test/e2e/http/http.test.ts > a type that nobody knows is routed",
    },
    {
      report: "https://github.com/webrenew/unicon/issues/42",
      symptom: "The database fails, but Stripe's event is acknowledged, so it never comes again.",
      verdict: "right",
      test: "test/ingest/Ingest.test.ts > 503 with Retry-After asks for a retry",
    },
    {
      report: "https://github.com/openclaw/openclaw/issues/42157",
      symptom: "A delivery is answered with 200 and lost when the receiver restarts before it is processed.",
      verdict: "right",
      test: "test/e2e/trace.test.ts > goes through the journal: what is sent after a restart belongs to it, each attempt by itself",
    },
    {
      report: "https://github.com/oven-sh/bun/pull/37074",
      symptom: "A graceful stop waits for idle connections until they time out.",
      verdict: "right",
      test: "test/runtime/Runtime.test.ts > does not wait for connections that are idle or send half a head",
    },
    {
      report: "https://github.com/denoland/deno/issues/3515",
      symptom: "A server has no time-out for reading requests, so slow clients hold connections forever.",
      verdict: "right",
      test: "test/ingest/Ingest.test.ts > with 408 when its body stalls, whatever length it declared",
    },
    {
      report: "https://github.com/oven-sh/bun/issues/25469",
      symptom: "A compiled program reads the .env file of the directory that it is started in.",
      verdict: "right",
      test: "test/e2e/binary.test.ts > reads no .env, no bunfig.toml, no tsconfig.json and no package.json of its directory",
    },
    {
      report: "https://github.com/adnanh/webhook/issues/393",
      symptom: "A renewed certificate is used only after a restart.",
      verdict: "right",
      test: "test/e2e/certificates.test.ts > the listener's and a sink's are renewed under load, none is refused, and a bad one is not taken",
    },
    {
      report: "https://github.com/adnanh/webhook/issues/499",
      symptom: "`git pull` replaces the watched file, and all hooks are removed.",
      verdict: "right",
      test: "test/reload/Watch.test.ts > may be away for a moment, as when another takes its name",
    },
    {
      report: "https://github.com/Azure/azure-functions-host/issues/702",
      symptom: "A blank was pasted with GitHub's secret, and no signature matches.",
      verdict: "right",
      test: "test/config/mistakes/references.ts > a secret with a blank at its end",
    },
    {
      report: "https://github.com/sipyourdrink-ltd/bernstein/pull/5989",
      symptom: "A webhook's payload with line breaks adds lines to the log that look genuine.",
      verdict: "right",
      test: "test/e2e/http/http.test.ts > nothing that a stranger sent stands in an answer or in the log",
    },
    {
      report: "https://github.com/bobmatnyc/claude-mpm/issues/400",
      symptom: "The variable of the secret is not set, and deliveries are accepted without a signature.",
      verdict: "right",
      test: "test/config/mistakes/references.ts > a variable that is not set",
    },
  ],
}
