/** Texts that are no JSON. */
import { canary } from "../../cli/configs.ts"
import { config, type Theme } from "./Mistake.ts"

const lines = (...all: ReadonlyArray<string>): string => `${all.join("\n")}\n`

export const syntax: Theme = {
  title: "The file",
  mistakes: {
    "there is none": { command: ["validate", "--offline", "-c", "relay.confg.json"] },
    "it is a directory": { command: ["validate", "--offline", "-c", "."] },
    "it is empty": "§",
    "it is a list": "§[1, 2]",
    "it is a text": '§"relay"',
    "it is YAML": lines("§listen: 127.0.0.1:8080", "webhooks:", "  scheduling:", "    path: /hooks"),
    "it is TOML": lines('§listen = "127.0.0.1:8080"', "[webhooks.scheduling]", 'path = "/hooks"'),
    "it is saved as UTF-16": { files: { "relay.config.json": new Uint8Array([0xff, 0xfe, 0x7b, 0, 0x7d, 0]) } },
    "a comma is missing": lines("{", '  "listen": "127.0.0.1:8080"', '  §"tests": []', "}"),
    "a colon is missing": lines("{", '  "listen" §"127.0.0.1:8080"', "}"),
    "an object is not closed": '{\n  "listen": "127.0.0.1:8080"§',
    "a list is not closed": config({ routes: '[{ "name": "a", "match": "**", "to": ["audit" §}]' }),
    "a brace too many": lines("{", '  "listen": "127.0.0.1:8080"', "}", "§}"),
    "a quote is missing at the end of a value": config({
      listen: '§"127.0.0.1:8080',
      admin: `{ "listen": "127.0.0.1:9080", "token": "${canary}" }`,
    }),
    "a quote is missing at the beginning of a value": config({
      listen: '§127.0.0.1:8080"',
      admin: `{ "listen": "127.0.0.1:9080", "token": "${canary}" }`,
    }),
    "a quote is missing at the end of a key": config({ more: '§"listen: "127.0.0.1:8080",\n  "tests": []' }),
    "a quote is missing in a list of texts": config({
      routes: '[{ "name": "a", "match": [§"appointment.*, "client.*"], "to": ["audit"] }]',
    }),
    "a quote is missing before a secret": config({ admin: `{ "token": §${canary}" }` }),
    "a key has no quotes": lines("{", '  §listen: "127.0.0.1:8080"', "}"),
    "a text has no quotes": lines("{", '  "listen": §localhost', "}"),
    "a text is in single quotes": lines("{", `  "admin": { "token": §'${canary}' }`, "}"),
    "everything is in single quotes": lines("{", `  §'admin': { 'token': 'Bearer ${canary}: x' }`, "}"),
    "quotes are typographic": lines("{", `  §“admin”: { “token”: “${canary}” }`, "}"),
    "a value is from Python": config({ more: '"tests": §None' }),
    "a number is written as in JavaScript": config({ delivery: '{ "pauseAfter": §+5 }' }),
    "a comment begins with #": lines("{", "  §# listens here", '  "listen": "127.0.0.1:8080"', "}"),
    "a comment is not closed": lines("{", '  §/* "listen": "127.0.0.1:8080"', "}"),
    "a backslash is not escaped": config({ journal: '{ "path": §"C:\\data\\journal.db" }' }),
    "a text goes over two lines": config({ admin: '{ "token": §"one\n  two" }' }),
    "a key comes twice": config({ listen: '"127.0.0.1:8080"', more: '§"listen": "127.0.0.1:8081"' }),
    "braces in braces without end": `{ "sinks":\n${'{"a":'.repeat(101)}1${"}".repeat(101)} }`,
    "two independent mistakes": lines("{", '  "listen" §"127.0.0.1:8080",', '  "admin": {}', '  "tests": []', "}"),
  },
}
