/**
 * Text on its way to a terminal.
 *
 * **Gotcha.** Names, types, answers and files are somebody else's words. A control
 * character among them would speak to the terminal, one that turns text around
 * (U+202E and its kin) would have it read as something else, and one without
 * width would make two names look alike: none is passed on.
 */

/** Controls, formats (marks of direction, zero widths, tags), halves of characters, private ones, and breaks of lines and paragraphs. */
const steering = "\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Zl}\\p{Zp}"
const instead = "\ufffd"

const any = new RegExp(`[${steering}]`, "gu")
/** Somebody else's text, for a place on a line. */
export const plain = (text: string): string => text.replace(any, instead)

const oursOrAny = new RegExp(`(\\n|\\t|\\u001b\\[[\\d;]*m)|[${steering}]`, "gu")
/** All that is printed, as a last gate: lines, tabs and colours pass, nothing else that steers. */
export const screened = (text: string): string => text.replace(oursOrAny, (_, ours?: string) => ours ?? instead)

const inJson = /[\u007f-\u009f\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu
const unit = (code: number): string => `\\u${code.toString(16).padStart(4, "0")}`
/** JSON with such characters written as escapes: the same value, and nothing that steers. */
export const escaped = (json: string): string =>
  json.replace(inJson, (odd) => [...Array(odd.length).keys()].map((at) => unit(odd.charCodeAt(at))).join(""))
