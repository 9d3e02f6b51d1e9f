/** SQS, EventBridge and S3, killed and frozen. The endpoint is the campaign's own, and keeps its events on disk. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { freePort } from "../../lib/port.ts"
import { sendSignal } from "../../lib/signal.ts"
import type { Line, Options, Outcome } from "../Line.ts"
import { bodyOf, numberOf } from "../relay/Traffic.ts"
import { killed } from "./Killed.ts"

const credentials = { accessKeyId: "faults", secretAccessKey: "faults" }

const arrival = (body: string): number => {
  const number = numberOf(JSON.parse(body).id)
  return body === bodyOf(number) ? number : -1
}

const toEndpoint = async (options: Options, sink: (url: string) => object): Promise<Outcome> => {
  const directory = mkdtempSync(join(tmpdir(), "relay-faults-aws-"))
  const file = join(directory, "bodies")
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const command = [process.execPath, join(import.meta.dir, "awsEndpoint.ts"), String(port), file]
  const answers = () =>
    fetch(url, { headers: { "x-amz-target": "AWSEvents.DescribeEventBus" } }).then(
      ({ ok }) => ok,
      () => false,
    )
  let endpoint: Bun.Subprocess | undefined
  const kill = async () => {
    endpoint?.kill("SIGKILL")
    await endpoint?.exited
  }
  return killed(
    {
      config: sink(url),
      kill,
      start: async () => {
        endpoint = Bun.spawn(command, { stdout: "ignore", stderr: "inherit" })
        while (!(await answers())) await Bun.sleep(20)
      },
      freeze: () => endpoint && sendSignal(endpoint.pid, "SIGSTOP"),
      thaw: () => endpoint?.kill("SIGCONT"),
      arrived: () => (existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n").map(arrival) : []),
      remove: async () => {
        await kill()
        rmSync(directory, { recursive: true, force: true })
      },
    },
    options,
  )
}

export const sqsKilled: Line = {
  name: "sqs-killed",
  fault: "an SQS endpoint and the relay are killed in turn under load; it freezes",
  run: (options) =>
    toEndpoint(options, (url) => ({
      type: "sqs",
      queueUrl: `${url}/123456789012/events`,
      region: "eu-west-1",
      credentials,
    })),
}

export const eventBridgeKilled: Line = {
  name: "eventbridge-killed",
  fault: "an EventBridge endpoint and the relay are killed in turn under load; it freezes",
  run: (options) =>
    toEndpoint(options, (endpoint) => ({
      type: "eventbridge",
      eventBusArn: "arn:aws:events:eu-west-1:123456789012:event-bus/events",
      endpoint,
      credentials,
    })),
}

export const s3Killed: Line = {
  name: "s3-killed",
  fault: "an S3 endpoint and the relay are killed in turn under load; it freezes",
  run: (options) =>
    toEndpoint(options, (endpoint) => ({
      type: "s3",
      bucket: "events",
      region: "us-east-1",
      endpoint,
      credentials,
      batch: { linger: "200 millis" },
    })),
}
