/**
 * How sequences identify streams, and epochs identify timelines. A sequence is `stream · 2^42 + n`, with n from
 * 1. So stream 0 has 1, 2, 3, …, and a number is enough to find an event.
 */

const width = 2 ** 42

/** The shared stream, for sinks that require one relay: many relays append to it, and one delivers it. */
export const sharedStream = 1

/** The number below a stream's first sequence: the head of an empty stream. */
export const floorOf = (stream: number): number => stream * width

/** The number above its last sequence. */
export const ceilingOf = (stream: number): number => (stream + 1) * width

/** Returns both, for `sequence > $floor AND sequence < $ceiling`. */
export const rangeOf = (stream: number): readonly [floor: number, ceiling: number] => [
  floorOf(stream),
  ceilingOf(stream),
]

/** Returns the stream of an event. */
export const streamOf = (sequence: number): number => Math.floor(sequence / width)

/** Returns the timeline of the server on which a stream's epoch began. */
export const timelineOf = (epoch: number): number => Math.floor(epoch / 2 ** 32)

/** 2^53 is the last integer that is exact. */
export const maxStreams = 2 ** 11
