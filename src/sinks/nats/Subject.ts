/** Checks what NATS accepts as a subject to publish to, and which patterns of rights it fits. */

/** A longer one would not fit into the line of the protocol, and the server would close the connection. */
const longest = 1_000

/** Tokens between dots: none is empty, and none is a wildcard. */
export const isSubject = (subject: string): boolean =>
  subject.length <= longest && subject.split(".").every((token) => /^[\x21-\x7e]+$/.test(token) && !/[*>]/.test(token))

/** `$JS.API` and `$SYS` are the server's own: what is sent there is a request to it. */
export const isReserved = (subject: string): boolean => /^\$(JS|SYS)\./.test(`${subject}.`)

/** Whether a subject fits a pattern: `*` is a token, `>` at the end one or more. A queue may stand behind a blank. */
export const fits = (subject: string, pattern: string): boolean => {
  const wanted = (pattern.split(" ")[0] ?? "").split(".")
  const tokens = subject.split(".")
  if (wanted.at(-1) === ">" ? tokens.length < wanted.length : tokens.length !== wanted.length) return false
  return wanted.every((one, index) => one === "*" || one === ">" || one === tokens[index])
}
