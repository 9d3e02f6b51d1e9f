/**
 * Text for a terminal.
 *
 * **Gotcha.** Names, types, answers and files come from outside. Control characters
 * in them could steer the terminal, marks of direction (U+202E) could reverse the
 * text, and characters without width could make two names look alike: none of them
 * is printed.
 */

/** Control and format characters, lone surrogates, private use, and line and paragraph separators. */
const steering = "\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Zl}\\p{Zp}"
const instead = "\ufffd"

const any = new RegExp(`[${steering}]`, "gu")
/** Text from outside, for use within a line. */
export const plain = (text: string): string => text.replace(any, instead)

const oursOrAny = new RegExp(`(\\n|\\t|\\u001b\\[[\\d;]*m)|[${steering}]`, "gu")
/** The last filter of everything that is printed: of the control characters only lines, tabs and colours pass. */
export const screened = (text: string): string => text.replace(oursOrAny, (_, ours?: string) => ours ?? instead)

const inJson = /[\u007f-\u009f\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu
const unit = (code: number): string => `\\u${code.toString(16).padStart(4, "0")}`
/** JSON with such characters written as escapes; the value stays the same. */
export const escaped = (json: string): string =>
  json.replace(inJson, (odd) => [...Array(odd.length).keys()].map((at) => unit(odd.charCodeAt(at))).join(""))

// Text for a shell.

/** Quoted for a shell where necessary. */
export const quoted = (text: string): string =>
  /^[A-Za-z0-9_./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

/** The words as a line of a shell; none of them steers the terminal that shows it. */
export const shellLine = (...words: ReadonlyArray<string>): string => words.map((word) => quoted(plain(word))).join(" ")

/** `relay dlq replay crm:7` */
export const relayCommand = (...words: ReadonlyArray<string>): string => `relay ${shellLine(...words)}`
