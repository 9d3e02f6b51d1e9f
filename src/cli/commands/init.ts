/**
 * `relay init`: writes a commented config and its schema without overwriting an
 * existing config, or prints the systemd unit.
 */
import { Effect, FileSystem, Option, Path } from "effect"
import { Command } from "effect/cli"
import unit from "../../../config/deploy/relay.service" with { type: "text" }
import { defaultFile, embedded } from "../../config/load/ConfigText.ts"
import { jsonSchemaText } from "../../config/schema/JsonSchema.ts"
import { quoted } from "../../formats/Texts.ts"
import { journalTypes } from "../../journal/Journals.ts"
import { sinkTypes } from "../../sinks/SinkTypes.ts"
import { io } from "../support/CommandError.ts"
import { Config, Json, toggle, withExamples } from "../support/flags.ts"
import { plain, print, printJson, printWhole } from "../support/output.ts"
import { Program } from "../support/Program.ts"

/** The schema's file beside the config, whose `$schema` refers to it. */
const schemaFile = "relay.schema.json"

const whyNot = (tag: string, directory: string): string => {
  switch (tag) {
    case "NotFound":
      return `there is no directory ${directory}; \`mkdir -p ${quoted(directory)}\` makes it`
    case "PermissionDenied":
      return `permission denied; choose another file with \`--config FILE\`, or run it as another user`
    case "BadResource":
      return `${directory} is a file, or the name is that of a directory`
    default:
      return `the system refuses it (${tag})`
  }
}

export const init = Command.make(
  "init",
  {
    systemd: toggle("systemd", "Print a systemd unit instead"),
  },
  Effect.fn(function* ({ systemd }) {
    if (systemd) return yield* printWhole(unit.trimEnd())
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const { command } = yield* Program
    const chosen = yield* Config
    const file = Option.getOrElse(chosen, () => defaultFile)
    yield* fs
      .writeFileString(file, embedded.replace(/"\$schema": "[^"]*"/, `"$$schema": "./${schemaFile}"`), { flag: "wx" })
      .pipe(
        Effect.mapError(({ reason }) =>
          io(
            reason._tag === "AlreadyExists"
              ? `${plain(file)} exists and is left as it is; \`--config FILE\` chooses another`
              : `${plain(file)} can't be written: ${whyNot(reason._tag, plain(path.dirname(file)))}`,
          ),
        ),
      )
    // Only editors need the schema.
    yield* Effect.ignore(
      fs.writeFileString(path.join(path.dirname(file), schemaFile), jsonSchemaText({ sinkTypes, journalTypes }), {
        flag: "wx",
      }),
    )
    if (yield* Json) return yield* printJson({ file })
    const flag = Option.isSome(chosen) ? ` -c ${quoted(file)}` : ""
    yield* print(
      `${plain(file)} written; \`${command} validate${flag}\` checks it, \`${command} run${flag}\` starts it`,
    )
  }),
).pipe(
  withExamples({
    "relay init": "Writes relay.config.json, and relay.schema.json for editors; never over an existing file",
    "relay init --systemd > /etc/systemd/system/relay.service": "Install it as a service",
  }),
)
