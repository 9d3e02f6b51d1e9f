/** The system's code of an error (`ENOSPC`), or its name. */
export const codeOf = (error: unknown): string => {
  if (!(error instanceof Error)) return "unknown error"
  return "code" in error && typeof error.code === "string" ? error.code : error.name
}
