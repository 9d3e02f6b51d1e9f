#!/usr/bin/env node
/**
 * Starts the relay on the Bun that this package depends on. It is found where
 * npm has put it, and not by that package's install script, which may be off.
 */
const { spawn } = require("node:child_process")
const { createRequire } = require("node:module")
const { join } = require("node:path")

const isWindows = process.platform === "win32"

const bun = () => {
  const system = isWindows ? "windows" : process.platform
  const processor = process.arch === "arm64" ? "aarch64" : process.arch
  process.report.excludeNetwork = true
  const isMusl = system === "linux" && process.report.getReport().header.glibcVersionRuntime === undefined
  const name = `@oven/bun-${system}-${processor}${isMusl ? "-musl" : ""}`
  try {
    return createRequire(require.resolve("bun/package.json")).resolve(`${name}/bin/bun${isWindows ? ".exe" : ""}`)
  } catch {
    console.error(
      `relay: ${name} is not installed; it is an optional dependency of bun, so install without --omit=optional`,
    )
    process.exit(69)
  }
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
