/**
 * A load balancer for a fleet. It polls `/readyz` of each relay, and sends each delivery to the next ready relay. If
 * that relay can't be reached or answers 503, it tries another.
 */

export interface Backend {
  /** `http://127.0.0.1:8081`. */
  readonly url: string
  /** Its admin API. */
  readonly admin: string
}

/** Milliseconds between polls. */
const every = 250

export const makeLoadBalancer = async (port: number, backends: ReadonlyArray<Backend>) => {
  const ready = new Set<Backend>()
  let turn = 0

  const look = async (backend: Backend): Promise<void> => {
    const isReady = await fetch(`${backend.admin}/readyz`, { signal: AbortSignal.timeout(every * 4) }).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isReady) ready.add(backend)
    else ready.delete(backend)
  }
  const lookAtAll = () => Promise.all(backends.map(look))
  await lookAtAll()
  const looking = setInterval(() => void lookAtAll(), every)

  /** The ready relays. Each call starts with another one. */
  const inTurn = (): ReadonlyArray<Backend> => {
    const all = backends.filter((backend) => ready.has(backend))
    turn += 1
    return [...all.slice(turn % all.length), ...all.slice(0, turn % all.length)]
  }

  const server = Bun.serve({
    hostname: "127.0.0.1",
    port,
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url)
      const body = await request.bytes()
      for (const { url } of inTurn()) {
        const answer = await fetch(`${url}${pathname}${search}`, {
          method: request.method,
          headers: request.headers,
          ...(body.length > 0 && { body }),
          redirect: "manual",
        }).catch(() => undefined)
        if (answer !== undefined && answer.status !== 503) return answer
      }
      return new Response("no relay is ready\n", { status: 503, headers: { "retry-after": "1" } })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    close: () => {
      clearInterval(looking)
      server.stop(true)
    },
  }
}
