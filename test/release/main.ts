/**
 * `bun run release`: everything that goes out, in `dist/release`. What can't be
 * made here is said, with the reason.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join, relative, resolve } from "node:path"
import { Effect } from "effect"
import * as Checksums from "./Checksums.ts"
import * as DebianBase from "./DebianBase.ts"
import { helpOf } from "./Help.ts"
import * as LinuxPackages from "./LinuxPackages.ts"
import * as Npm from "./Npm.ts"
import * as Oci from "./Oci.ts"
import * as Sbom from "./Sbom.ts"
import * as Tarballs from "./Tarballs.ts"
import { compile, native, targets } from "./Targets.ts"
import { versionOf } from "./Version.ts"

const root = resolve(import.meta.dir, "../..")
const into = join(root, "dist/release")
const compiled = join(root, "dist/targets")
const version = versionOf(root)
rmSync(into, { recursive: true, force: true })
mkdirSync(into, { recursive: true })

/** Two at a time: each compresses a hundred megabytes. */
const each = <A, B>(all: ReadonlyArray<A>, make: (one: A) => Promise<B>): Promise<ReadonlyArray<B>> =>
  Effect.runPromise(Effect.forEach(all, (one) => Effect.promise(() => make(one)), { concurrency: 2 }))

const built = await each(targets, async (target) => ({
  target,
  binary: await compile(root, target, compiled),
}))
const own = built.find(({ target }) => target === native())
const help = await helpOf(own === undefined ? [process.execPath, join(root, "src/main.ts")] : [own.binary], version)
const release = { root, version, help, into }

await each(built, (one) => Tarballs.make({ ...release, ...one }))
const skipped = LinuxPackages.reasonToSkip()
if (skipped !== undefined) console.warn(`skipped: .deb and .rpm: ${skipped}`)
else {
  const packages = built.flatMap(({ target: { packaged }, binary }) =>
    packaged === undefined ? [] : (["deb", "rpm"] as const).map((format) => ({ format, packaged, binary })),
  )
  await each(packages, ({ format, packaged, binary }) => LinuxPackages.make(format, packaged, { ...release, binary }))
}

await Npm.make(release)

const noImage = DebianBase.reasonToSkip()
if (noImage !== undefined) console.warn(`skipped: the container image: ${noImage}`)
else {
  const platforms = await each(
    built.flatMap(({ target: { packaged }, binary }) => (packaged === undefined ? [] : [{ packaged, binary }])),
    async ({ packaged: { debian: architecture }, binary }) => ({
      architecture,
      binary,
      base: await DebianBase.fetchBase(architecture),
    }),
  )
  await Oci.make(root, version, platforms, into)
}
rmSync(compiled, { recursive: true })

const sbom = Sbom.make(root, Bun.version, version.time)
writeFileSync(join(into, "relay.cdx.json"), `${JSON.stringify(sbom, null, 2)}\n`)
const checksums = Checksums.make(into)
writeFileSync(join(into, Checksums.file), checksums)
console.log(`${checksums}relay ${version.version} is in ${relative(process.cwd(), into)}`)
