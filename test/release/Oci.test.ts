/** The container image: every digest matches its bytes, its settings match the container file, and it runs. */
import { describe, expect, test } from "bun:test"
import { spawn, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { gunzipSync } from "node:zlib"
import { Sender, secret } from "../faults/relay/Traffic.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { relayBinary, root } from "../lib/programs.ts"
import * as DebianBase from "./DebianBase.ts"
import * as Oci from "./Oci.ts"
import type { Entry } from "./Tarball.ts"

const version = { version: "1.2.3", time: 1_795_219_200 }

/** Reads the images of a layout. Checks that every blob matches its descriptor. */
const read = (layout: ReadonlyArray<Entry>) => {
  const files = new Map(layout.map(({ path, content = "" }) => [path, Buffer.from(content)]))
  const used = new Set<string>()
  const blob = ({ digest, size }: { readonly digest: string; readonly size: number }): Buffer => {
    const bytes = files.get(`blobs/${digest.replace(":", "/")}`) ?? Buffer.of()
    expect([`sha256:${createHash("sha256").update(bytes).digest("hex")}`, bytes.length]).toEqual([digest, size])
    used.add(digest)
    return bytes
  }
  const json = (path: string) => JSON.parse(String(files.get(path)))
  const index = JSON.parse(String(blob(json("index.json").manifests[0])))
  const images = index.manifests.map((descriptor: { readonly digest: string; readonly size: number }) => {
    const manifest = JSON.parse(String(blob(descriptor)))
    const config = JSON.parse(String(blob(manifest.config)))
    const layers: ReadonlyArray<Buffer> = manifest.layers.map(blob)
    return { descriptor, manifest, config, layers }
  })
  return { json, images, unused: [...files.keys()].filter((path) => /^blobs\/sha256\/./.test(path)).length - used.size }
}

describe("the container image", () => {
  const base: DebianBase.Base = { entries: [{ path: "lib", linkname: "usr/lib" }], packages: ["libc6_1_amd64.deb"] }
  const platforms = ["amd64", "arm64"].map((architecture) => ({ architecture, base, binary: join(root, "LICENSE") }))

  test("is an OCI layout with correct digests, sizes and layers", async () => {
    const { json, images, unused } = read(await Oci.layout(root, version, platforms))
    expect(json("oci-layout")).toEqual({ imageLayoutVersion: "1.0.0" })
    expect(json("index.json").manifests[0].annotations).toEqual({
      "org.opencontainers.image.ref.name": "localhost/relay:1.2.3",
      "io.containerd.image.name": "localhost/relay:1.2.3",
    })
    expect(unused).toBe(0)
    expect(images).toHaveLength(2)
    for (const [number, { descriptor, manifest, config, layers }] of images.entries()) {
      const { architecture } = platforms[number] ?? {}
      expect(descriptor.platform).toEqual({ architecture, os: "linux" })
      expect(config).toMatchObject({ architecture, os: "linux" })
      expect(manifest.layers).toHaveLength(2)
      const digests = layers.map((layer: Buffer) => createHash("sha256").update(gunzipSync(layer)).digest("hex"))
      expect(config.rootfs).toEqual({ type: "layers", diff_ids: digests.map((digest: string) => `sha256:${digest}`) })
    }
  })

  test("runs as the container file describes", () => {
    expect(Oci.runtimeOf(readFileSync(join(root, "config/deploy/Containerfile"), "utf8"))).toEqual({
      User: "65532:65532",
      ExposedPorts: { "8080/tcp": {}, "9080/tcp": {} },
      Env: ["PATH=/usr/local/bin:/usr/bin:/bin", "UV_THREADPOOL_SIZE=64", "RELAY_DRAIN_DELAY=5 seconds"],
      Entrypoint: ["/usr/local/bin/relay"],
      Cmd: ["run", "-c", "/etc/relay/relay.config.json"],
      Volumes: { "/data": {} },
      WorkingDir: "/data",
      StopSignal: "SIGTERM",
    })
  })

  test("is the same bytes each time", async () => {
    expect(await Oci.layout(root, version, platforms)).toEqual(await Oci.layout(root, version, platforms))
  })
})

const lacking = (): string | undefined => {
  if (process.env.RELAY_PARTS !== "1") return "RELAY_PARTS=1 bun test runs it, as root on Debian"
  if (process.getuid?.() !== 0) return "it needs root, for a root directory of its own"
  return DebianBase.reasonToSkip()
}

suiteUnless(lacking(), "the container image, unpacked", () => {
  test("runs without root on its own C library, and takes an event", async () => {
    const architecture = process.arch === "x64" ? "amd64" : process.arch
    const base = await DebianBase.fetchBase(architecture)
    const { images } = read(await Oci.layout(root, version, [{ architecture, base, binary: relayBinary() }]))
    const [{ config, layers }] = images
    const directory = mkdtempSync(join(tmpdir(), "relay-image-"))
    // Everybody may read the root directory, as in a container.
    chmodSync(directory, 0o755)
    try {
      for (const input of layers) {
        expect(spawnSync("tar", ["-xzpf", "-", "-C", directory, "--numeric-owner"], { input }).status).toBe(0)
      }
      for (const path of ["proc", "dev", "etc/relay"]) mkdirSync(join(directory, path), { recursive: true })
      const text = readFileSync(join(root, "config/deploy/packaged.json"), "utf8")
        .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:0")
        .replaceAll("/var/lib/relay", "/data")
        .replace(`file:\${CREDENTIALS_DIRECTORY}/scheduling`, secret)
        .replace("file:/etc/relay/admin-token", "the-token-of-this-test")
      writeFileSync(join(directory, "etc/relay/relay.config.json"), text)
      const mounts = 'mount -t proc proc proc && mount --rbind /dev dev && exec chroot --userspec="$0" . "$@"'
      const {
        config: { User, Entrypoint, Cmd },
      } = config
      const env = { ...process.env, RELAY_DRAIN_REFUSE: "0 seconds" }
      const relay = spawn("unshare", ["--mount", "sh", "-c", mounts, User, ...Entrypoint, ...Cmd], {
        cwd: directory,
        env,
      })
      let said = ""
      for (const stream of [relay.stdout, relay.stderr]) stream.on("data", (chunk) => (said += chunk))
      const ended = new Promise((resolve) => relay.once("close", resolve))
      while (!said.includes('"started"') && relay.exitCode === null) await Bun.sleep(20)
      const address = /"deliveries":"([^"]+)"/.exec(said)?.[1] ?? ""
      expect([address, address === "" ? said : ""]).toEqual([expect.stringContaining("127.0.0.1:"), ""])
      expect(await new Sender(address).send()).toBe(202)
      relay.kill("SIGTERM")
      expect(await ended).toBe(0)
    } finally {
      rmSync(directory, { recursive: true })
    }
  }, 60_000)
})
