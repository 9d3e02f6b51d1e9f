/**
 * The next version of the relay: this source under another version number, with
 * one step more in the schema of each journal. It is a program of its own, in a
 * directory that is removed after the tests.
 */
import { cpSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { root } from "./programs.ts"
import { temporaryDirectory } from "./temporaryRoot.ts"

export interface NextRelay {
  readonly version: string
  /** The path of its program. */
  readonly binary: string
}

/** Adds a table and a column, as a step may do while relays of the previous version run. */
const sqliteStep = ["CREATE TABLE of_next (a TEXT) STRICT", "ALTER TABLE log ADD COLUMN of_next TEXT"]
const postgresStep = `CREATE TABLE of_next (a text);
  DO $do$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema LOOP
      EXECUTE format('ALTER TABLE %I ADD COLUMN next_has text NOT NULL DEFAULT ''''', name);
    END LOOP;
  END $do$`

const replace = (file: string, found: string | RegExp, by: string): void => {
  const text = readFileSync(file, "utf8")
  const changed = text.replace(found, () => by)
  if (changed === text) throw new Error(`${file} does not hold ${found}`)
  writeFileSync(file, changed)
}

export const makeNextRelay = (): NextRelay => {
  const home = temporaryDirectory("next-")
  for (const part of [
    "src",
    "config/deploy",
    "docs/operations",
    "package.json",
    "tsconfig.json",
    "relay.config.json",
  ]) {
    cpSync(join(root, part), join(home, part), { recursive: true })
  }
  symlinkSync(join(root, "node_modules"), join(home, "node_modules"))
  const [major = "", minor = ""] = manifest.version.split(".")
  const version = `${major}.${Number(minor) + 1}.0`
  replace(join(home, "package.json"), `"version": "${manifest.version}"`, `"version": "${version}"`)
  const more = (file: string, name: string, step: unknown) => {
    const line = `export const ${name} = steps.length`
    replace(join(home, file), line, `;(steps as Array<unknown>).push(${JSON.stringify(step)})\n${line}`)
  }
  more("src/journal/sqlite/rows/Migrations.ts", "current", sqliteStep)
  more("src/journal/postgres/tables/DatabaseSchema.ts", "latest", postgresStep)
  const binary = join(home, "relay")
  const words = [process.execPath, join(home, "src/main.ts")].map((word) => `'${word}'`)
  writeFileSync(binary, `#!/bin/sh\nexec ${words.join(" ")} "$@"\n`, { mode: 0o755 })
  return { version, binary }
}
