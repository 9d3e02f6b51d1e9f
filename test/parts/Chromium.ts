/**
 * A real browser: Debian's Chromium, driven by `playwright-core`, which contains no browser. RELAY_CHROMIUM=PATH names
 * another.
 */
import { existsSync } from "node:fs"
import { type Browser, chromium } from "playwright-core"

const known = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
const executablePath = process.env.RELAY_CHROMIUM ?? known.find((path) => existsSync(path))

/** Why the tests in a browser don't run, or `undefined` if they do. */
export const reasonToSkip = (): string | undefined => {
  if (executablePath === undefined) return "it needs Chromium: apt-get install chromium, or RELAY_CHROMIUM=PATH"
  return process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test runs it in Chromium"
}

/** Starts it with a new profile, which is removed when it closes. */
export const openChromium = (): Promise<Browser> =>
  chromium.launch({
    ...(executablePath !== undefined && { executablePath }),
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  })
