/** The limit that a runtime has for the headers of a request, if it can't be set. */
export const headerLimit =
  "Deno" in globalThis ? "Deno takes 64 KiB and 128 headers, and has no other limit" : undefined
