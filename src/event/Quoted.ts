/** A receiver's own words within a message, which can be taken out again. */

/** The receiver's own words in a message; nothing if there are none. */
export const quoting = (words: string): string => (words === "" ? "" : `; it says "${words.replaceAll('"', "'")}"`)

/** A message without them. */
export const unquoted = (message: string): string => message.replaceAll(/; it says "[^"]*"/g, "")

/** This text stands where a value was masked. */
export const mask = "***"
