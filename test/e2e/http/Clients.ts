/** HTTP clients of other languages. Each sends requests with bodies, and prints the status of each response or its error. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface Sent {
  readonly path: string
  readonly type: string
  /** Size of the body in bytes. */
  readonly size: number
  readonly chunked: boolean
  /** Whether the request says `Connection: close`. */
  readonly close: boolean
}

export interface Client {
  /** The command that shows its version. It fails if the client is not installed. */
  readonly version: readonly [program: string, ...args: ReadonlyArray<string>]
  readonly run: readonly [program: string, ...args: ReadonlyArray<string>]
  readonly extension: string
  /** A script whose arguments are a port and the requests as JSON. */
  readonly script: string
  /** Whether it can send a request of this kind. */
  readonly sends?: (sent: Sent) => boolean
}

const node = (send: string): string => `
import http from "node:http"
const [port, sent] = process.argv.slice(2)
const piece = Buffer.alloc(50_000, "x")
for (const { path, type, size, chunked, close } of JSON.parse(sent)) {
  const url = "http://127.0.0.1:" + port + path
  const headers = { "content-type": type }
  ${send}
}`

export const clients: Readonly<Record<string, Client>> = {
  curl: {
    version: ["curl", "--version"],
    run: ["sh"],
    extension: "sh",
    script: `
port=$1; shift
for sent in "$@"; do
  IFS=, read -r path type size chunked close <<EOF
$sent
EOF
  set -- -H "Content-Type: $type"
  [ "$chunked" = true ] && set -- "$@" -H "Transfer-Encoding: chunked"
  [ "$close" = true ] && set -- "$@" -H "Connection: close"
  head -c "$size" /dev/zero > body
  curl -s -o /dev/null -w '%{http_code}\\n' "$@" --data-binary @body "http://127.0.0.1:$port$path"
done`,
  },
  "Node's http": {
    version: ["node", "--version"],
    run: ["node"],
    extension: "mjs",
    script: node(`
  console.log(await new Promise((resolve) => {
    if (!chunked) headers["content-length"] = size
    if (close) headers.connection = "close"
    const request = http.request(url, { method: "POST", headers, agent: close ? false : undefined }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode))
    })
    request.on("error", ({ code }) => resolve(code))
    for (let at = 0; at < size; at += piece.length) request.write(piece)
    request.end()
  }))`),
  },
  "Node's fetch": {
    version: ["node", "--version"],
    run: ["node"],
    extension: "mjs",
    sends: ({ close }) => !close,
    script: node(`
  const body = chunked
    ? new ReadableStream({ start: (_) => { for (let at = 0; at < size; at += piece.length) _.enqueue(piece); _.close() } })
    : Buffer.alloc(size)
  const status = fetch(url, { method: "POST", headers, body, duplex: "half" }).then(async (response) => {
    await response.text()
    return response.status
  })
  console.log(await status.catch((error) => error.cause?.code ?? error.message))`),
  },
  Python: {
    version: ["python3", "--version"],
    run: ["python3"],
    extension: "py",
    script: `
import http.client, json, sys
for sent in json.loads(sys.argv[2]):
    headers = {"Content-Type": sent["type"]}
    if sent["close"]: headers["Connection"] = "close"
    body = b"x" * sent["size"]
    if sent["chunked"]:
        headers["Transfer-Encoding"] = "chunked"
        body = (b"x" * 50000 for _ in range(sent["size"] // 50000))
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
    try:
        connection.request("POST", sent["path"], body, headers, encode_chunked=sent["chunked"])
        print(connection.getresponse().status)
    except Exception as error:
        print(repr(error))`,
  },
  Ruby: {
    version: ["ruby", "--version"],
    run: ["ruby"],
    extension: "rb",
    script: `
require "net/http"
require "json"
require "stringio"
JSON.parse(ARGV[1]).each do |sent|
  request = Net::HTTP::Post.new(sent["path"], { "Content-Type" => sent["type"] })
  request["Connection"] = "close" if sent["close"]
  if sent["chunked"]
    request["Transfer-Encoding"] = "chunked"
    request.body_stream = StringIO.new("x" * sent["size"])
  else
    request.body = "x" * sent["size"]
  end
  begin
    puts Net::HTTP.new("127.0.0.1", ARGV[0].to_i).request(request).code
  rescue => error
    puts error.class
  end
end`,
  },
  PHP: {
    version: ["php", "--version"],
    run: ["php"],
    extension: "php",
    // Its own streams always send a length and close the connection, so all other requests go over a socket.
    script: `<?php
function by_stream($port, $sent) {
  $http = ["method" => "POST", "header" => "Content-Type: " . $sent["type"], "content" => str_repeat("x", $sent["size"]), "ignore_errors" => true];
  $http_response_header = [""];
  @file_get_contents("http://127.0.0.1:" . $port . $sent["path"], false, stream_context_create(["http" => $http]));
  return $http_response_header[0];
}
function by_socket($port, $sent) {
  $socket = fsockopen("127.0.0.1", (int) $port);
  $framing = $sent["chunked"] ? "Transfer-Encoding: chunked" : "Content-Length: " . $sent["size"];
  $close = $sent["close"] ? "Connection: close\r\n" : "";
  @fwrite($socket, "POST " . $sent["path"] . " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: " . $sent["type"] . "\r\n$framing\r\n$close\r\n");
  $piece = str_repeat("x", 50000);
  for ($at = 0; $at < $sent["size"]; $at += 50000) @fwrite($socket, $sent["chunked"] ? "c350\r\n$piece\r\n" : $piece);
  if ($sent["chunked"]) @fwrite($socket, "0\r\n\r\n");
  $line = fgets($socket);
  fclose($socket);
  return $line;
}
foreach (json_decode($argv[2], true) as $sent) {
  $line = $sent["close"] && !$sent["chunked"] ? by_stream($argv[1], $sent) : by_socket($argv[1], $sent);
  echo explode(" ", $line)[1] ?? "no response", "\n";
}`,
  },
  Go: {
    version: ["go", "version"],
    run: ["go", "run"],
    extension: "go",
    script: `
package main
import ("bytes"; "encoding/json"; "fmt"; "io"; "net/http"; "os")
type sent struct { Path, Type string; Size int; Chunked, Close bool }
func main() {
  var all []sent
  json.Unmarshal([]byte(os.Args[2]), &all)
  for _, one := range all {
    var body io.Reader = bytes.NewReader(make([]byte, one.Size))
    if one.Chunked { body = struct{ io.Reader }{body} }
    request, _ := http.NewRequest("POST", "http://127.0.0.1:" + os.Args[1] + one.Path, body)
    request.Header.Set("Content-Type", one.Type)
    request.Close = one.Close
    response, err := http.DefaultClient.Do(request)
    if err != nil { fmt.Println(err); continue }
    io.Copy(io.Discard, response.Body)
    response.Body.Close()
    fmt.Println(response.StatusCode)
  }
}`,
  },
}

export const isInstalled = ({ version: [program, ...args] }: Client): boolean =>
  spawnSync(program, args, { stdio: "ignore" }).status === 0

/** Sends the requests one by one. Returns the output of the client for each. */
export const sendAll = async (client: Client, port: number, sent: ReadonlyArray<Sent>): Promise<Array<string>> => {
  const home = mkdtempSync(join(tmpdir(), "relay-client-"))
  const file = join(home, `client.${client.extension}`)
  writeFileSync(file, client.script)
  const requests =
    client.extension === "sh"
      ? sent.map(({ path, type, size, chunked, close }) => [path, type, size, chunked, close].join())
      : [JSON.stringify(sent)]
  const child = Bun.spawn([...client.run, file, String(port), ...requests], { cwd: home, stderr: "inherit" })
  const said = await new Response(child.stdout).text()
  rmSync(home, { recursive: true, force: true })
  return said.trim().split("\n")
}
