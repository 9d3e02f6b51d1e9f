/** Frees memory without the collector, which is late by hundreds of megabytes under a flood of bodies. */

/** Frees the buffer of `bytes` now, unless something else has a part of it. They are empty from then on. */
export const free = (bytes: Uint8Array): void => {
  if (bytes.buffer instanceof ArrayBuffer && bytes.byteLength === bytes.buffer.byteLength) bytes.buffer.transfer(0)
}
