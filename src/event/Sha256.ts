import { createHash } from "node:crypto"

/** Returns the SHA-256 of text or bytes, in hexadecimal. */
export const sha256 = (data: string | Uint8Array): string => createHash("sha256").update(data).digest("hex")
