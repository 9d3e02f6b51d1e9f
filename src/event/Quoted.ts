/** Quotes a receiver's response within a message, so that it can be removed again. */

/** Formats a receiver's words as a quotation in a message. Returns an empty string if there are none. */
export const quoting = (words: string): string => (words === "" ? "" : `; it says "${words.replaceAll('"', "'")}"`)

/** Returns a message without such quotations. */
export const unquoted = (message: string): string => message.replaceAll(/; it says "[^"]*"/g, "")

/** Replaces a masked value. */
export const mask = "***"
