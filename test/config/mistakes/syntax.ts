/** Texts that are no JSON. */
import { canary } from "../../cli/configs.ts"
import { config, type Theme } from "./Mistake.ts"

const lines = (...all: ReadonlyArray<string>): string => `${all.join("\n")}\n`

export const syntax: Theme = {
  title: "The file",
  mistakes: [
    { name: "there is none", command: ["validate", "--offline", "-c", "relay.confg.json"] },
    { name: "it is a directory", command: ["validate", "--offline", "-c", "."] },
    { name: "it is empty", config: "§" },
    { name: "it is a list", config: "§[1, 2]" },
    { name: "it is a text", config: '§"relay"' },
    { name: "it is YAML", config: lines("§listen: 127.0.0.1:8080", "webhooks:", "  scheduling:", "    path: /hooks") },
    { name: "it is TOML", config: lines('§listen = "127.0.0.1:8080"', "[webhooks.scheduling]", 'path = "/hooks"') },
    { name: "it is saved as UTF-16", files: { "relay.config.json": new Uint8Array([0xff, 0xfe, 0x7b, 0, 0x7d, 0]) } },
    { name: "a comma is missing", config: lines("{", '  "listen": "127.0.0.1:8080"', '  §"tests": []', "}") },
    { name: "a colon is missing", config: lines("{", '  "listen" §"127.0.0.1:8080"', "}") },
    { name: "an object is not closed", config: '{\n  "listen": "127.0.0.1:8080"§' },
    { name: "a list is not closed", config: config({ routes: '[{ "name": "a", "match": "**", "to": ["audit" §}]' }) },
    { name: "a brace too many", config: lines("{", '  "listen": "127.0.0.1:8080"', "}", "§}") },
    {
      name: "a quote is missing at the end of a value",
      config: config({ listen: '§"127.0.0.1:8080', admin: `{ "listen": "127.0.0.1:9080", "token": "${canary}" }` }),
    },
    {
      name: "a quote is missing at the beginning of a value",
      config: config({ listen: '§127.0.0.1:8080"', admin: `{ "listen": "127.0.0.1:9080", "token": "${canary}" }` }),
    },
    {
      name: "a quote is missing at the end of a key",
      config: config({ more: '§"listen: "127.0.0.1:8080",\n  "tests": []' }),
    },
    {
      name: "a quote is missing in a list of texts",
      config: config({ routes: '[{ "name": "a", "match": [§"appointment.*, "client.*"], "to": ["audit"] }]' }),
    },
    { name: "a quote is missing before a secret", config: config({ admin: `{ "token": §${canary}" }` }) },
    { name: "a key has no quotes", config: lines("{", '  §listen: "127.0.0.1:8080"', "}") },
    { name: "a text has no quotes", config: lines("{", '  "listen": §localhost', "}") },
    { name: "a text is in single quotes", config: lines("{", `  "admin": { "token": §'${canary}' }`, "}") },
    {
      name: "everything is in single quotes",
      config: lines("{", `  §'admin': { 'token': 'Bearer ${canary}: x' }`, "}"),
    },
    { name: "quotes are typographic", config: lines("{", `  §“admin”: { “token”: “${canary}” }`, "}") },
    { name: "a value is from Python", config: config({ more: '"tests": §None' }) },
    { name: "a number is written as in JavaScript", config: config({ delivery: '{ "pauseAfter": §+5 }' }) },
    { name: "a comment begins with #", config: lines("{", "  §# listens here", '  "listen": "127.0.0.1:8080"', "}") },
    { name: "a comment is not closed", config: lines("{", '  §/* "listen": "127.0.0.1:8080"', "}") },
    { name: "a backslash is not escaped", config: config({ journal: '{ "path": §"C:\\data\\journal.db" }' }) },
    { name: "a text goes over two lines", config: config({ admin: '{ "token": §"one\n  two" }' }) },
    { name: "a key comes twice", config: config({ listen: '"127.0.0.1:8080"', more: '§"listen": "127.0.0.1:8081"' }) },
    { name: "braces in braces without end", config: `{ "sinks":\n${'{"a":'.repeat(101)}1${"}".repeat(101)} }` },
    {
      name: "two independent mistakes",
      config: lines("{", '  "listen" §"127.0.0.1:8080",', '  "admin": {}', '  "tests": []', "}"),
    },
  ],
}
