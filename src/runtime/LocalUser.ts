/**
 * The user who runs the process, by its number: Bun's `userInfo` takes the name
 * from `$USER`, which anybody can set.
 */
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import process from "node:process"

/** The name of a number in the text of `/etc/passwd`; `undefined` where it has none. */
export const nameIn = (passwd: string, uid: number): string | undefined =>
  passwd
    .split("\n")
    .map((line) => line.split(":"))
    .find(([name, , number]) => name !== "" && number === String(uid))?.[0]

/** The number of a name in the text of `/etc/passwd` or `/etc/group`; `undefined` if it has none. */
export const numberIn = (text: string, name: string): number | undefined => {
  const found = text
    .split("\n")
    .map((line) => line.split(":"))
    .find(([one]) => one === name)?.[2]
  return found === undefined ? undefined : Number(found)
}

/** The user of a number, for messages: its name, or else the number. */
export const userOf = (uid: number): string =>
  orUndefined(() => nameIn(readFileSync("/etc/passwd", "utf8"), uid)) ?? String(uid)

const orUndefined = (look: () => string | undefined): string | undefined => {
  try {
    return look() || undefined
  } catch {
    return undefined
  }
}

const lookUp = (): string => {
  const uid = process.geteuid?.()
  if (uid === undefined) return "unknown"
  return (
    orUndefined(() => nameIn(readFileSync("/etc/passwd", "utf8"), uid)) ??
    // Users of a directory service, and those that systemd makes up, are in no file.
    orUndefined(() =>
      execFileSync("/usr/bin/id", ["-un"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim(),
    ) ??
    String(uid)
  )
}

let found: string | undefined

/** The name of the user; its number where the system has no name for it. */
export const localUser = (): string => {
  found ??= lookUp()
  return found
}
