/** Stored bytes, by webhook. */
export class WebhookBytes {
  total = 0
  readonly #of = new Map<string, number>()

  add(webhook: string, bytes: number): void {
    const now = this.of(webhook) + bytes
    this.total += bytes
    if (now === 0) this.#of.delete(webhook)
    else this.#of.set(webhook, now)
  }

  of(webhook: string): number {
    return this.#of.get(webhook) ?? 0
  }

  /** The webhook with the most bytes, or `undefined` if there are none. */
  get most(): string | undefined {
    return [...this.#of].sort(([, a], [, b]) => b - a)[0]?.[0]
  }
}
