import { expect, test } from "bun:test"
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { madeOnce } from "./cached.ts"

const into = (path: string, name: string): void => {
  mkdirSync(path)
  writeFileSync(join(path, name), "")
}

test("if two processes make a cached file at the same time, the first to end wins", () => {
  const target = join(temporaryDirectory("cached-"), "program")
  madeOnce(target, (path) => {
    into(path, "second")
    madeOnce(target, (other) => into(other, "first"))
  })
  madeOnce(target, () => expect.unreachable())
  expect(readdirSync(target)).toEqual(["first"])
  expect(readdirSync(dirname(target))).toEqual(["program"])
})

test("a cached file that can't be made is an error, and leaves nothing behind", () => {
  const target = join(temporaryDirectory("cached-"), "program")
  const make = (path: string) => {
    into(path, "part")
    throw new Error("no network")
  }
  expect(() => madeOnce(target, make)).toThrow("no network")
  expect(existsSync(target)).toBe(false)
  expect(readdirSync(dirname(target))).toEqual([])
})
