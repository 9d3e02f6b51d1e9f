/** The draws of a seed. Each use has its own stream, so that one more draw here changes nothing there. */
import { crc32 } from "node:zlib"
import { seeded } from "../../lib/seeded.ts"

export class Draw {
  /** In [0, 1). */
  readonly next: () => number

  constructor(seed: number, use: string) {
    this.next = seeded(crc32(`${seed} ${use}`))
  }

  real(from: number, to: number): number {
    return from + this.next() * (to - from)
  }

  /** Both ends included. */
  int(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1))
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  pick<A>(list: readonly [A, ...ReadonlyArray<A>]): A {
    return list[this.int(0, list.length - 1)] ?? list[0]
  }
}
