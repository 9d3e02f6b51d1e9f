/** Text for a shell. */
import { plain } from "./Terminal.ts"

/** Quoted for a shell where necessary. */
export const quoted = (text: string): string =>
  /^[A-Za-z0-9_./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

/** The words as a line of a shell; none of them steers the terminal that shows it. */
export const line = (...words: ReadonlyArray<string>): string => words.map((word) => quoted(plain(word))).join(" ")

/** `relay dlq replay crm:7` */
export const relayCommand = (...words: ReadonlyArray<string>): string => `relay ${line(...words)}`
