/**
 * A schema registry for tests: Apicurio Registry on loopback, from Maven Central, with Confluent's API below `url`. The
 * consumer that asks it is Confluent's own for Python.
 *
 * The version and its checksum are pinned here. The files are kept in `.cache/apicurio`. The newest release needs Java
 * 21, and this one Java 17, as Kafka does.
 */
import { spawn, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, readFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { freePort } from "../lib/port.ts"
import { madeOnce } from "./cached.ts"
import { type Proxy as Front, makeProxy } from "./Proxy.ts"
import { ServerProcess } from "./ServerProcess.ts"
import { venv } from "./venv.ts"

const version = "2.6.13.Final"
const sum = "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba"
const cache = resolve(import.meta.dir, "../../.cache/apicurio")

const must = (command: string, args: ReadonlyArray<string>): void => {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8" })
  if (status !== 0) throw new Error(`${command} ${args[0]}\n${error?.message ?? ""}${stdout}${stderr}`)
}

/** The directory of the server's files. */
const ensureServer = (): string =>
  madeOnce(join(cache, version), (path) => {
    mkdirSync(path)
    must("mvn", [
      "--batch-mode",
      "--quiet",
      "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy",
      `-Dartifact=io.apicurio:apicurio-registry-app:${version}:tar.gz:all`,
      `-DoutputDirectory=${path}`,
    ])
    const file = join(path, `apicurio-registry-app-${version}-all.tar.gz`)
    const found = createHash("sha256").update(readFileSync(file)).digest("hex")
    if (found !== sum) throw new Error(`${file} differs from the pinned file: ${found}`)
    must("tar", ["xzf", file, "-C", path])
  })

export interface Registry {
  /** The URL of Confluent's API. */
  readonly url: string
  /** Refuses connections until `restore`. */
  readonly cut: () => Promise<void>
  readonly restore: () => Promise<void>
  /** Sends a request to the API, even while it is cut. */
  readonly ask: (path: string, init?: RequestInit) => Promise<unknown>
  readonly stop: () => Promise<void>
}

/** Starts a registry for one test. It checks that versions are backward compatible, as Confluent's does. */
export const startRegistry = async (): Promise<Registry> => {
  const directory = ensureServer()
  const [listens, shown] = [await freePort(), await freePort()]
  const own = `http://127.0.0.1:${listens}/apis/ccompat/v7`
  const server = new ServerProcess({
    name: "Apicurio Registry",
    home: mkdtempSync(join(tmpdir(), "relay-apicurio-")),
    command: [
      "java",
      "-Xmx384m",
      "-XX:+UseSerialGC",
      "-XX:TieredStopAtLevel=1",
      "-Dquarkus.http.host=127.0.0.1",
      `-Dquarkus.http.port=${listens}`,
      "-jar",
      join(directory, `apicurio-registry-app-${version}-runner.jar`),
    ],
    isUp: () =>
      fetch(`${own}/subjects`).then(
        ({ ok }) => ok,
        () => false,
      ),
  })
  await server.start()
  const ask: Registry["ask"] = async (path, init = {}) => {
    const headers = { "content-type": "application/vnd.schemaregistry.v1+json" }
    return (await fetch(`${own}${path}`, { headers, ...init })).json()
  }
  await ask("/config", { method: "PUT", body: JSON.stringify({ compatibility: "BACKWARD" }) })
  let proxy: Front | undefined
  const restore = async () => {
    proxy = await makeProxy(listens, { port: shown })
  }
  const cut = async () => {
    await proxy?.close()
    proxy = undefined
  }
  await restore()
  return {
    url: `http://127.0.0.1:${shown}/apis/ccompat/v7`,
    cut,
    restore,
    ask,
    stop: () => cut().then(server.stop),
  }
}

/** A record as the consumer decodes it. */
export interface Decoded {
  readonly topic: string
  readonly key: string | null
  readonly value: unknown
}

/** Reads this many records, decoded with the registry's schemas for their ids. */
export const consume = async (
  broker: string,
  { url }: Registry,
  count: number,
  topics: ReadonlyArray<string>,
): Promise<ReadonlyArray<Decoded>> => {
  const script = join(import.meta.dir, "apicurio/consume.py")
  const consumer = spawn(join(venv("apicurio"), "python"), [script, broker, url, String(count), ...topics])
  let out = ""
  let said = ""
  consumer.stdout.on("data", (chunk) => {
    out += chunk
  })
  consumer.stderr.on("data", (chunk) => {
    said += chunk
  })
  const [status] = await once(consumer, "close")
  if (status !== 0) throw new Error(`the consumer ended with ${status}: ${said}`)
  return out
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line))
}
