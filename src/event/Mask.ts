/** This text stands where a value was masked. */
export const mask = "***"
