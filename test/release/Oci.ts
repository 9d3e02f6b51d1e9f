/**
 * The container image as an OCI layout in a tar, made without a daemon. `podman load` and `skopeo copy oci-archive:`
 * read it. Its runtime settings are those in `config/deploy/Containerfile`, but its base comes from DebianBase.ts.
 */
import { createHash } from "node:crypto"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Base } from "./DebianBase.ts"
import { type Entry, gzip, tar } from "./Tarball.ts"
import type { Version } from "./Version.ts"

interface Descriptor {
  readonly mediaType: string
  readonly digest: string
  readonly size: number
  readonly [more: string]: unknown
}

export interface Platform {
  /** The processor's name in Debian and OCI. */
  readonly architecture: string
  readonly base: Base
  readonly binary: string
}

const type = (name: string): string => `application/vnd.oci.image.${name}`
const sha256 = (bytes: Uint8Array | string): string => `sha256:${createHash("sha256").update(bytes).digest("hex")}`

/** The image's runtime settings, from the last stage of the container file. */
export const runtimeOf = (containerfile: string) => {
  const stage = containerfile.slice(containerfile.lastIndexOf("\nFROM "))
  const said = (instruction: string): string => {
    const value = new RegExp(`^${instruction} (.*)$`, "m").exec(stage)?.[1]
    if (value === undefined) throw new Error(`config/deploy/Containerfile has no ${instruction}`)
    return value
  }
  const env = [...stage.matchAll(/^ENV (.*)$/gm)].map(([, value = ""]) => value.replaceAll('"', ""))
  const keys = (values: ReadonlyArray<string>) => Object.fromEntries(values.map((value) => [value, {}]))
  return {
    User: said("USER"),
    ExposedPorts: keys(
      said("EXPOSE")
        .split(" ")
        .map((port) => `${port}/tcp`),
    ),
    Env: ["PATH=/usr/local/bin:/usr/bin:/bin", ...env],
    Entrypoint: JSON.parse(said("ENTRYPOINT")),
    Cmd: JSON.parse(said("CMD")),
    Volumes: keys(JSON.parse(said("VOLUME"))),
    WorkingDir: said("WORKDIR"),
    StopSignal: said("STOPSIGNAL"),
  }
}

/** The files of the layout, by path. */
export const layout = async (
  root: string,
  { version, time }: Version,
  platforms: ReadonlyArray<Platform>,
): Promise<ReadonlyArray<Entry>> => {
  const created = new Date(time * 1000).toISOString()
  const blobs = new Map<string, Uint8Array | string>()
  const blob = (name: string, bytes: Uint8Array | string): Descriptor => {
    const digest = sha256(bytes)
    blobs.set(digest, bytes)
    return { mediaType: type(name), digest, size: Buffer.byteLength(bytes) }
  }
  const json = (name: string, value: object): Descriptor =>
    blob(name, JSON.stringify({ schemaVersion: 2, mediaType: type(name), ...value }))
  const runtime = runtimeOf(readFileSync(join(root, "config/deploy/Containerfile"), "utf8"))

  const image = async ({ architecture, base, binary }: Platform): Promise<Descriptor> => {
    const owner = Number(runtime.User.split(":")[0])
    const own: ReadonlyArray<Entry> = [
      { path: "usr/local/bin/relay", content: readFileSync(binary), mode: 0o755 },
      { path: "usr/share/doc/relay/copyright", content: readFileSync(join(root, "LICENSE")) },
      { path: `${runtime.WorkingDir.slice(1)}/`, owner },
    ]
    const tars = await Promise.all([base.entries, own].map((entries) => tar(entries, time)))
    const zipped = await Promise.all(tars.map(gzip))
    // Blobs are added in the order of the layers, not in the order of completion.
    const layers = zipped.map((layer) => blob("layer.v1.tar+gzip", layer))
    const config = blob(
      "config.v1+json",
      JSON.stringify({
        created,
        architecture,
        os: "linux",
        config: { ...runtime, Labels: { "org.opencontainers.image.version": version } },
        rootfs: { type: "layers", diff_ids: tars.map(sha256) },
        history: [
          { created, comment: base.packages.join(" ") },
          { created, comment: `relay ${version}` },
        ],
      }),
    )
    return { ...json("manifest.v1+json", { config, layers }), platform: { architecture, os: "linux" } }
  }

  const manifests = []
  for (const platform of platforms) manifests.push(await image(platform))
  const name = `localhost/relay:${version}`
  // Podman, containerd and Docker take the image's name from the second annotation, skopeo and older versions of Podman
  // from the first.
  const annotations = { "org.opencontainers.image.ref.name": name, "io.containerd.image.name": name }
  const all = { ...json("index.v1+json", { manifests }), annotations }
  return [
    { path: "oci-layout", content: JSON.stringify({ imageLayoutVersion: "1.0.0" }) },
    {
      path: "index.json",
      content: JSON.stringify({ schemaVersion: 2, mediaType: type("index.v1+json"), manifests: [all] }),
    },
    { path: "blobs/" },
    { path: "blobs/sha256/" },
    ...[...blobs].map(([digest, content]) => ({ path: `blobs/${digest.replace(":", "/")}`, content })),
  ]
}

/** Writes the archive. Returns its path. */
export const make = async (
  root: string,
  version: Version,
  platforms: ReadonlyArray<Platform>,
  into: string,
): Promise<string> => {
  const target = join(into, `relay-${version.version}-oci.tar`)
  writeFileSync(target, await tar(await layout(root, version, platforms), version.time))
  return target
}
