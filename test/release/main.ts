/**
 * `bun run release`: everything that goes out, in `dist/release`, and what it
 * was compiled to, in `dist/targets`. What can't be made here is said, with the reason.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join, relative, resolve } from "node:path"
import { Effect } from "effect"
import * as Checksums from "./Checksums.ts"
import { helpOf } from "./Help.ts"
import * as LinuxPackages from "./LinuxPackages.ts"
import * as Sbom from "./Sbom.ts"
import * as Tarballs from "./Tarballs.ts"
import { compile, native, targets } from "./Targets.ts"
import { versionOf } from "./Version.ts"

const root = resolve(import.meta.dir, "../..")
const into = join(root, "dist/release")
const version = versionOf(root)
rmSync(into, { recursive: true, force: true })
mkdirSync(into, { recursive: true })

/** Two at a time: each compresses a hundred megabytes. */
const each = <A, B>(all: ReadonlyArray<A>, make: (one: A) => Promise<B>): Promise<ReadonlyArray<B>> =>
  Effect.runPromise(Effect.forEach(all, (one) => Effect.promise(() => make(one)), { concurrency: 2 }))

const built = await each(targets, async (target) => ({
  target,
  binary: await compile(root, target, join(root, "dist/targets")),
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

const sbom = Sbom.make(root, Bun.version, version.time)
writeFileSync(join(into, "relay.cdx.json"), `${JSON.stringify(sbom, null, 2)}\n`)
const checksums = Checksums.make(into)
writeFileSync(join(into, Checksums.file), checksums)
console.log(`${checksums}relay ${version.version} is in ${relative(process.cwd(), into)}`)
