/**
 * How sequences tell streams apart: `stream · 2^42 + n`, with n from 1. So those
 * of stream 0 are 1, 2, 3, …, and a number is enough to find an event. And how
 * epochs tell timelines apart.
 */

const width = 2 ** 42

/** Many relays append to it, and one delivers: for sinks that need one mind. */
export const sharedStream = 1

/** Below its first sequence: the head of an empty stream. */
export const floorOf = (stream: number): number => stream * width

/** Above its last sequence. */
export const ceilingOf = (stream: number): number => (stream + 1) * width

/** Both, for `sequence > $floor AND sequence < $ceiling`. */
export const rangeOf = (stream: number): readonly [floor: number, ceiling: number] => [
  floorOf(stream),
  ceilingOf(stream),
]

/** The stream that an event is in. */
export const streamOf = (sequence: number): number => Math.floor(sequence / width)

/** The timeline of the server on which an epoch of a stream began. */
export const timelineOf = (epoch: number): number => Math.floor(epoch / 2 ** 32)

/** 2^53 is the last whole number that is exact. */
export const maxStreams = 2 ** 11
