/** The id of a dead letter for operators: its lane and its sequence, `lake:42`. */

export interface DeadLetterKey {
  readonly lane: string
  readonly sequence: number
}

/** Returns the id of a lane's dead letter. */
export const of = (lane: string, sequence: number): string => `${lane}:${sequence}`

/** Splits an id. Returns `undefined` if the string isn't one. */
export const parse = (id: string | undefined): DeadLetterKey | undefined => {
  const match = /^(.+):([1-9][0-9]{0,15})$/.exec(id ?? "")
  return match === null ? undefined : { lane: match[1] ?? "", sequence: Number(match[2]) }
}
