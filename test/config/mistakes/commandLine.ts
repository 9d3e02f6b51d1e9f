/** The command line. `{taken}` is the address of another program. */
import { canary } from "../../cli/configs.ts"
import { config, file, sink, type Theme } from "./Mistake.ts"

const listening = (listen: string, admin: string): string =>
  config({ listen: `"${listen}"`, admin: `{ "listen": "${admin}" }`, journal: '{ "path": "journal.db" }' })

export const commandLine: Theme = {
  title: "The command line",
  mistakes: {
    "a mistyped command": { command: ["triger", "client.created"] },
    "a command that there is not": { command: ["start"] },
    "a config without -c": { command: ["run", "relay.config.json"] },
    "-c without a file": { command: ["validate", "-c"] },
    "a flag that there is not": { command: ["run", "--port", "8080"] },
    "a flag that was cut short": { command: ["validate", "--conf", "relay.config.json"] },
    "a mistyped flag": { command: ["validate", "--ofline"] },
    "a log format that there is not": { command: ["run", "--log-format", "xml"] },
    "trigger without a type": { command: ["trigger"] },
    "trigger of an unknown type": { command: ["trigger", "appointment"] },
    "trigger of a mistyped type": { command: ["trigger", "appointment.creatd"] },
    "trigger of the relay's own event": { command: ["trigger", "relay.dead_letter"] },
    "trigger with a count that isn't a number": { command: ["trigger", "client.created", "-n", "many"] },
    "trigger with a count of nothing": { command: ["trigger", "client.created", "-n", "0"] },
    "trigger with a rate of nothing": { command: ["trigger", "client.created", "--rate", "0"] },
    "trigger to a URL without its scheme": { command: ["trigger", "client.created", "--url", "localhost:8080"] },
    "trigger by an unknown webhook": { command: ["trigger", "client.created", "--webhook", "schedulin"] },
    "trigger without a running relay": {
      config: listening("127.0.0.1:1", "127.0.0.1:2"),
      command: ["trigger", "client.created"],
    },
    "trigger at another program's port": {
      config: listening("{taken}", "127.0.0.1:2"),
      command: ["trigger", "client.created"],
    },
    "status without a running relay": { config: listening("127.0.0.1:1", "127.0.0.1:2"), command: ["status"] },
    "status at another program's port": { config: listening("127.0.0.1:1", "{taken}"), command: ["status"] },
    "explain without a type": { command: ["explain"] },
    "explain of an unknown webhook": { command: ["explain", "client.created", "--webhook", "schedulin"] },
    "explain of an unknown sink's payload": { command: ["explain", "client.created", "--payload", "adit"] },
    "explain of a type with --reveal": { command: ["explain", "client.created", "--reveal"] },
    "dlq replay of nothing": { command: ["dlq", "replay"] },
    "dlq drop of two kinds": { command: ["dlq", "drop", "--all", "--sink", "audit"] },
    "dlq show without an id": { command: ["dlq", "show"] },
    "lanes pause without a name": { command: ["lanes", "pause"] },
    "events with an outcome that there is not": { command: ["events", "--outcome", "parked"] },
    "events with an outcome that is a property of every object": {
      command: ["events", "--outcome", "constructor"],
    },
    "events with a limit of nothing": { command: ["events", "--limit", "0"] },
    "events since a time that is none": { command: ["events", "--since", "tomorrow"] },
    "a log level that there is not": { command: ["validate", "--offline", "--log-level", "loud"] },
    "init over a file": { command: ["init"], config: config({}) },
    "init into a directory that is not there": { command: ["init", "-c", "etc/relay.config.json"] },
    "init into a file as if it were a directory": {
      command: ["init", "-c", "etc/relay.config.json"],
      files: { etc: "" },
    },
    "journal check without a journal": {
      config: config({ journal: '{ "path": "journal.db" }' }),
      command: ["journal", "check"],
    },
    "journal check of a file that isn't a journal": {
      command: ["journal", "check", "notes.txt"],
      files: { "notes.txt": "no journal, but long enough to be looked at" },
    },
    "journal backup without a place": { command: ["journal", "backup"] },
    "journal backup of a file that isn't a journal": {
      command: ["journal", "backup", "copy.db", "journal.db"],
      files: { "copy.db": "x", "journal.db": "x" },
    },
    "journal salvage of a missing file": {
      command: ["journal", "salvage", "events.ndjson", "journal.db"],
    },
    "journal import of a missing file": { command: ["journal", "import", "journal.db"] },
    "journal import of a log": {
      command: ["journal", "import", "relay.log"],
      files: { "relay.log": '{"a":1}\n' },
    },
    "validate with a sink that can't be reached": {
      config: sink(`"type": "http", "url": "http://127.0.0.1:1/${canary}"`),
      command: ["validate"],
    },
    "validate with a sink whose directory is a file": {
      config: sink('"type": "file", "path": "data/events.ndjson"'),
      files: { data: "" },
      command: ["validate"],
    },
    "validate with a sink whose authorities are missing": {
      config: sink('"type": "http", "url": "https://127.0.0.1:1/", "tls": { "ca": "ca.pem" }'),
      command: ["validate"],
    },
    "run with a receiver's port that is taken": { config: listening("{taken}", "127.0.0.1:0"), command: ["run"] },
    "run with an admin port that is taken": { config: listening("127.0.0.1:0", "{taken}"), command: ["run"] },
    "run with a journal's directory that is a file": {
      config: config({
        listen: '"127.0.0.1:0"',
        admin: '{ "listen": "127.0.0.1:0" }',
        journal: '{ "path": "data/journal.db" }',
      }),
      files: { data: "" },
      command: ["run"],
    },
    "validate with a journal's path that is a directory": {
      config: config({ journal: '{ "path": "journal.db" }' }),
      files: { "journal.db": null },
      command: ["validate"],
    },
    "validate with a journal's path that is a text file": {
      config: config({ journal: '{ "path": "notes.txt" }' }),
      files: { "notes.txt": "notes of somebody" },
      command: ["validate"],
    },
    "run with a journal's path that is a device": {
      config: config({
        listen: '"127.0.0.1:0"',
        admin: '{ "listen": "127.0.0.1:0" }',
        journal: '{ "path": "/dev/null" }',
      }),
      command: ["run"],
    },
    "run with a missing certificate": {
      config: config({
        listen: '"127.0.0.1:0"',
        admin: '{ "listen": "127.0.0.1:0" }',
        journal: '{ "path": "journal.db" }',
        tls: '{ "certificate": "cert.pem", "key": "key.pem" }',
      }),
      command: ["run"],
    },
    "validate with a sink whose authorities aren't PEM": {
      config: file('"concurrency": 1').replace(
        '"type": "file", "path": "./events.ndjson"',
        '"type": "http", "url": "https://127.0.0.1:1/", "tls": { "ca": "ca.pem" }',
      ),
      files: { "ca.pem": "x" },
      command: ["validate"],
    },
  },
}
