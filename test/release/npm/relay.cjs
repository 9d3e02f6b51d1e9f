#!/usr/bin/env node
/**
 * Starts the relay on the Bun that this package depends on. The program is in the
 * package for this platform, unless the install script of `bun` has run: that
 * moves it into `bun` itself, where a short text is in its place before.
 */
const { spawn } = require("node:child_process")
const { statSync } = require("node:fs")
const { createRequire } = require("node:module")
const { dirname, join } = require("node:path")

const isWindows = process.platform === "win32"

/** The path that `find` gives, if a program is there: it has many megabytes. */
const programAt = (find) => {
  try {
    const path = find()
    return statSync(path).size > 1_000_000 ? path : undefined
  } catch {
    return undefined
  }
}

const bun = () => {
  const system = isWindows ? "windows" : process.platform
  const processor = process.arch === "arm64" ? "aarch64" : process.arch
  process.report.excludeNetwork = true
  const isMusl = system === "linux" && process.report.getReport().header.glibcVersionRuntime === undefined
  const name = `@oven/bun-${system}-${processor}${isMusl ? "-musl" : ""}`
  const packaged = require.resolve("bun/package.json")
  const inPlatform = () => createRequire(packaged).resolve(`${name}/bin/bun${isWindows ? ".exe" : ""}`)
  const found = [inPlatform, () => join(dirname(packaged), "bin", "bun.exe")].map(programAt).find(Boolean)
  if (found !== undefined) return found
  console.error(
    `relay: ${name} is not installed; it is an optional dependency of bun, so install without --omit=optional`,
  )
  process.exit(69)
}

const home = join(__dirname, "..")
// As the binary: its config, and no .env or bunfig.toml from the working directory.
const flags = ["--no-warnings", "--no-env-file", `--config=${join(home, "bunfig.toml")}`]
const child = spawn(bun(), [...flags, join(home, "dist/main.js"), ...process.argv.slice(2)], {
  stdio: "inherit",
  env: { ...process.env, RELAY_LAUNCHER: __filename },
})
// A terminal sends SIGINT to both; twice would end the relay without a drain.
process.on("SIGINT", () => {})
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal))
child.on("error", (error) => {
  console.error(`relay: ${error.message}`)
  process.exit(74)
})
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code)
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
})
