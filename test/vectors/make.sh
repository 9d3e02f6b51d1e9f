#!/bin/sh
# Makes vectors.json with openssl, so that our own HMAC is never its own judge.
# Run it here: ./make.sh > vectors.json && bunx biome format --write vectors.json
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

hex() { od -An -v -tx1 "$1" | tr -d ' \n'; }

# vector NAME: reads $work/body and $work/secret. A third argument names a body made by repetition.
first=1
vector() {
  digest=$(openssl dgst -sha256 -mac HMAC -macopt "hexkey:$(hex "$work/secret")" "$work/body" | sed 's/.*= //' | tr a-f A-F)
  [ $first = 1 ] || printf ',\n'
  first=0
  if [ $# -gt 1 ]; then body=$2; else body="\"base64\": \"$(openssl base64 -A -in "$work/body")\""; fi
  printf '  { "name": "%s", "secret": "%s", "body": { %s }, "signature": "sha256=%s" }' \
    "$1" "$(openssl base64 -A -in "$work/secret")" "$body" "$digest"
}
body() { printf "$1" > "$work/body"; }
secret() { printf "$1" > "$work/secret"; }

printf '[\n'
secret 'whsec_0123456789abcdef'
body '';                                              vector 'an empty body'
body '{"id":"evt_1"}';                                vector 'ASCII'
body ' {"id" : "evt_1"}\n';                           vector 'the same JSON with other white space'
body '{"name":"Zo\303\253 \346\227\245\346\234\254 \360\237\223\205"}'; vector 'UTF-8 of two, three and four bytes'
body '\357\273\277{"id":"evt_1"}';                    vector 'a byte order mark'
body '{\r\n  "id": "evt_1"\r\n}\r\n';                 vector 'CRLF line ends'
body '{"name":"\377\376\300\200"}';                   vector 'bytes that are not UTF-8'
body 'a\000b\000';                                    vector 'zero bytes'
body '{"name":"e\314\201"} {"name":"\303\251"}';      vector 'composed and decomposed letters'
body '{"note":"\\u00e9 %%s \\\\ \\"quoted\\""}';      vector 'escapes'
awk 'BEGIN { for (i = 0; i < 256; i++) printf "\\%03o", i }' > "$work/every"
body "$(cat "$work/every")";                          vector 'every byte once'
head -c 64 /dev/zero | tr '\0' a > "$work/body";      vector 'one block' '"byte": 97, "count": 64'
head -c 1048576 /dev/zero | tr '\0' a > "$work/body"; vector 'a mebibyte' '"byte": 97, "count": 1048576'

body '{"id":"evt_1"}'
secret 'k';                                           vector 'a secret of one letter'
secret 'p\303\244ssw\303\266rd\360\237\224\221';      vector 'a secret beyond ASCII'
secret 'white space and "quotes" \\ ';                vector 'a secret with white space at its end'
printf '%064d' 0 > "$work/secret";                    vector 'a secret of a block'
printf '%065d' 0 > "$work/secret";                    vector 'a secret longer than a block'
printf '%01000d' 7 > "$work/secret";                  vector 'a secret of a thousand letters'
printf '\n]\n'
