/**
 * Buckets of a test's own, and the objects in them: read from moto by plain HTTP, and from s3rver's files. moto
 * verifies signatures only if a test turns that on (`S3Rights.test.ts`), and s3rver never does.
 */
import { createHash } from "node:crypto"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { gunzipSync } from "node:zlib"
import { Effect } from "effect"
import { bodies } from "../lib/lines.ts"

export const region = "us-east-1"

/** An object as it is stored. */
export interface Stored {
  readonly name: string
  readonly bytes: Uint8Array
}

export interface Bucket {
  readonly name: string
  /** The objects in the order of their names. */
  readonly objects: () => Promise<ReadonlyArray<Stored>>
}

/** The lines of an object, which are the signed bytes. */
export const linesOf = ({ name, bytes }: Stored): ReadonlyArray<Uint8Array> =>
  bodies(name.endsWith(".gz") ? gunzipSync(bytes) : bytes)

/** Waits for this many lines in a bucket. Returns all lines, in the order of their objects' names. */
export const linesIn =
  ({ objects }: Bucket) =>
  (count: number): Effect.Effect<ReadonlyArray<Uint8Array>> =>
    Effect.promise(async () => {
      for (;;) {
        const lines = (await objects()).flatMap(linesOf)
        if (lines.length >= count) return lines
        await Bun.sleep(20)
      }
    })

const byName = (one: Stored, other: Stored) => (one.name < other.name ? -1 : 1)

/** moto checks only the scope. */
const authorization = `AWS4-HMAC-SHA256 Credential=test/20261121/${region}/s3/aws4_request, SignedHeaders=host, Signature=0`

const call = async (method: string, url: string): Promise<Response> => {
  const response = await fetch(url, { method, headers: { authorization } })
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${await response.text()}`)
  return response
}

let made = 0

const bucketIn = (url: string, name: string): Bucket => {
  return {
    name,
    objects: async () => {
      const found: Array<Stored> = []
      for (let after = ""; ; after = found.at(-1)?.name ?? "") {
        const list = await (
          await call("GET", `${url}/${name}?list-type=2&start-after=${encodeURIComponent(after)}`)
        ).text()
        for (const [, key = ""] of list.matchAll(/<Key>([^<]*)<\/Key>/g)) {
          const path = key.split("/").map(encodeURIComponent).join("/")
          found.push({ name: key, bytes: await (await call("GET", `${url}/${name}/${path}`)).bytes() })
        }
        if (!list.includes("<IsTruncated>true")) return found.toSorted(byName)
      }
    },
  }
}

/** Makes a bucket in moto. */
export const makeBucket = async (url: string, name = `bucket-${made++}`): Promise<Bucket> => {
  await call("PUT", `${url}/${name}`)
  return bucketIn(url, name)
}

/** Removes a bucket from moto with its objects. */
export const removeBucket = async (url: string, name: string): Promise<void> => {
  for (const { name: key } of await bucketIn(url, name).objects()) await call("DELETE", `${url}/${name}/${key}`)
  await call("DELETE", `${url}/${name}`)
}

/** Why the tests against s3rver don't run, or `undefined` if they do. */
export const lacksS3rver = (): string | undefined => {
  try {
    createRequire(import.meta.url).resolve("s3rver")
    return undefined
  } catch {
    return "it needs s3rver: bun install"
  }
}

/** The only access key that s3rver knows. */
export const s3rverKey = { accessKeyId: "S3RVER", secretAccessKey: "S3RVER" }

export interface S3rverServer {
  readonly url: string
  readonly makeBucket: () => Promise<Bucket>
  readonly stop: () => Promise<unknown>
}

const suffix = "._S3rver_object"

/**
 * Whether an object is complete. s3rver writes an object in place and its hash afterwards; S3 would show it only then.
 */
const isWhole = (path: string, bytes: Uint8Array): boolean => {
  const beside = `${path}.md5`
  return existsSync(beside) && readFileSync(beside, "utf8") === createHash("md5").update(bytes).digest("hex")
}

const filesBelow = (directory: string): ReadonlyArray<string> =>
  readdirSync(directory, { recursive: true, encoding: "utf8" })
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile())

/** Starts s3rver in a directory of its own. */
export const startS3rver = async (): Promise<S3rverServer> => {
  const { default: S3rver } = await import("s3rver")
  const directory = mkdtempSync(join(tmpdir(), "relay-s3rver-"))
  process.on("exit", () => rmSync(directory, { recursive: true, force: true }))
  const server = new S3rver({ address: "127.0.0.1", port: 0, silent: true, directory })
  const { port } = await server.run()
  return {
    url: `http://127.0.0.1:${port}`,
    makeBucket: async () => {
      const name = `bucket-${made++}`
      await server.store.putBucket(name)
      const root = join(directory, name)
      return {
        name,
        objects: async () =>
          filesBelow(root)
            .filter((path) => path.endsWith(suffix))
            .map((path) => ({ path, bytes: readFileSync(path) }))
            .filter(({ path, bytes }) => isWhole(path, bytes))
            .map(({ path, bytes }) => ({ name: relative(root, path).slice(0, -suffix.length), bytes }))
            .toSorted(byName),
      }
    },
    stop: () => server.close(),
  }
}
