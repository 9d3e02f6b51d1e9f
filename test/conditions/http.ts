/** The HTTP sink under each condition. */
import type { Column } from "./Column.ts"
import { answers, type Kind, steps } from "./HttpService.ts"

const http: Kind = { sink: (url) => ({ type: "http", url: `${url}/hooks` }) }

const answer = (status: number, body = "", headers: Record<string, string> = {}) =>
  new Response(body, { status, headers })

export const column: Column = {
  sink: "http",
  cells: {
    d: [
      answers(http, "the path answers 404 for a while; the lane waits", () => () => answer(404, "no such hook"), {
        says: /misconfigured: .*404; it says "no such hook".*path of "url"/,
        isQuick: true,
      }),
    ],
    e: [
      answers(
        http,
        "the receiver stores an event and answers after the time-out; the event is sent again",
        (service) => async (number) => {
          const accepted = service.accept(number)
          await Bun.sleep(1_500)
          return accepted
        },
        {
          says: /waiting: .*no answer within 1s/,
          bound: { copies: 30, because: "each attempt is stored, until the receiver answers in time" },
        },
      ),
    ],
    l: [
      steps(
        http,
        "the receiver restarts; its events wait",
        (service) => ({ breaks: () => service.stop(), heals: () => service.restart() }),
        { says: /waiting: .*connection refused/, isQuick: true },
      ),
    ],
  },
}
