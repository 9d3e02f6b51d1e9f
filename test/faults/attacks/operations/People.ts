/** People and programs that ask for the same thing twice, for nonsense, or for too much. */
import { connect } from "node:net"
import { memory } from "../../relay/Subject.ts"
import { inTurns } from "../Attack.ts"
import { attack, type Case, type Play } from "../Play.ts"

const mortal = { delivery: { retry: { initial: "10 millis", max: "20 millis", maxAttempts: 1 }, pauseAfter: 10_000 } }

const orphaned = async (play: Play, count = 100): Promise<ReadonlyArray<number>> => {
  play.shut(play.a)
  await play.start({ a: play.to(play.a), b: play.to(play.b) })
  await play.burst(count)
  const sent = play.acknowledged
  await play.waiting("a", count)
  await play.reload({ b: play.to(play.b) })
  return sent
}

const withDeadLetters = async (play: Play, count = 100): Promise<ReadonlyArray<number>> => {
  play.shut(play.a)
  await play.start({ a: play.to(play.a, mortal) })
  await play.burst(count)
  const sent = play.acknowledged
  await play.until(async () => ((await play.lane("a"))?.deadLetters ?? 0) >= count / 2, "there are no dead letters")
  play.open(play.a)
  await play.tell("/lanes/a/resume", undefined, 204)
  await play.until(async () => (await play.lane("a"))?.backlog === 0, "it does not settle")
  return sent
}

const status = async (play: Play, path: string, init?: RequestInit): Promise<number> => {
  const response = await fetch(`http://${play.subject.admin}${path}`, init).catch(() => undefined)
  const text = (await response?.text().catch(() => "")) ?? ""
  play.check(!/\bat .+:\d+:\d+/.test(text), `${path} answers a stack`)
  return response?.status ?? 0
}

/** Requests to the admin API that nobody should make, and the statuses of their answers. */
const odd: ReadonlyArray<readonly [path: string, init: RequestInit, statuses: ReadonlyArray<number>]> = [
  ["/api/v1/lanes/__proto__/pause", { method: "POST" }, [404]],
  ["/api/v1/lanes/_quarantine/drop", { method: "POST" }, [409]],
  ["/api/v1/lanes/%00/resume", { method: "POST" }, [404]],
  ["/api/v1/lanes/%ff/resume", { method: "POST" }, [400, 404]],
  ["/api/v1/dead-letters?limit=1e999", {}, [400]],
  ["/api/v1/dead-letters?limit=-1", {}, [400]],
  ["/api/v1/dead-letters?before=nonsense", {}, [409]],
  ["/api/v1/dead-letters/a:99999999999999999999", {}, [404]],
  ["/api/v1/events?before=1e400", {}, [409]],
  ["/api/v1/events?since=NaN", {}, [400]],
  ["/api/v1/events?types=%7B%7B%7B", {}, [409]],
  ["/api/v1/tap?type=%7B", {}, [409]],
  ["/api/v1/replays/__proto__", {}, [404]],
  ["/api/v1/../../etc/passwd", {}, [404]],
]

export const cases: ReadonlyArray<Case> = [
  attack("a backlog is moved to its own sink, to none, and from one that runs", async (play) => {
    const sent = await orphaned(play)
    await play.tell("/lanes/a/move", { to: "a" }, 409)
    await play.tell("/lanes/a/move", { to: "nobody" }, 404)
    await play.tell("/lanes/b/move", { to: "a" }, 409)
    await play.tell("/lanes/b/drop", undefined, 409)
    play.open(play.a)
    await play.reload({ a: play.to(play.a), b: play.to(play.b) })
    await play.has(play.a, sent, "a")
  }),
  attack("backlogs are moved in a circle", async (play) => {
    play.shut(play.a)
    play.shut(play.b)
    await play.start({ a: play.to(play.a), b: play.to(play.b) })
    await play.burst(60)
    const sent = play.acknowledged
    await play.waiting("b", 60)
    await play.reload({})
    await play.tell("/lanes/a/move", { to: "b" })
    await play.tell("/lanes/a/move", { to: "b" }, 404)
    play.open(play.a)
    play.open(play.b)
    await play.reload({ a: play.to(play.a) })
    await play.tell("/lanes/b/move", { to: "a" })
    await play.has(play.a, sent, "a")
  }),
  attack("a backlog is moved twice at once, to a sink that had the same events", async (play) => {
    const sent = await orphaned(play, 300)
    const move = () => play.subject.tell("/lanes/a/move", { to: "b" })
    const answers = await Promise.all([move(), move(), move()])
    play.check(
      answers.some(([status]) => status === 200),
      "no move was done",
    )
    await play.has(play.b, sent, "b")
    play.check(play.most(play.b) <= 2, `something came ${play.most(play.b)} times`)
  }),
  attack("one dead letter is replayed ten times at once", async (play) => {
    await withDeadLetters(play, 20)
    const [letter] = JSON.parse(await play.subject.ask("/api/v1/dead-letters?sink=a")) as ReadonlyArray<{
      id: string
    }>
    const ids = [letter?.id ?? "", letter?.id ?? ""]
    const replay = () => play.tell("/dead-letters/replay", { ids })
    const counts = await Promise.all(Array.from({ length: 10 }, replay))
    const sum = counts.reduce((sum, { count = 0 }) => sum + count, 0)
    play.check(sum === 1, `one dead letter was replayed ${sum} times`)
    await play.until(async () => (await play.lane("a"))?.backlog === 0, "it is not delivered")
    play.check(play.most(play.a) === 1, "it came twice")
  }),
  attack("dead letters are dropped while they are replayed", async (play) => {
    await withDeadLetters(play, 500)
    const delivered = play.a.times.size
    const there = (await play.lane("a"))?.deadLetters ?? 0
    const [replayed, dropped] = await Promise.all([
      play.tell("/dead-letters/replay", { sink: "a" }),
      play.tell("/dead-letters/drop", { sink: "a" }),
    ])
    const sum = (replayed.count ?? 0) + (dropped.count ?? 0)
    play.check(sum === there, `${replayed.count} replayed and ${dropped.count} dropped of ${there}`)
    await play.until(() => play.a.times.size >= delivered + (replayed.count ?? 0), "what was replayed is not delivered")
  }),
  attack("the log is replayed three times at once into a paused sink", async (play) => {
    await play.start({ a: play.to(play.a) })
    await play.burst(2_000)
    const sent = play.acknowledged
    await play.has(play.a, sent, "a")
    await play.tell("/lanes/a/pause", undefined, 200)
    const until = Date.now() - 1
    const counts = await Promise.all([1, 2, 3].map(() => play.replay("a", until)))
    const sum = counts.reduce((sum, count) => sum + count, 0)
    play.check(sum >= 3 * 1_900, `only ${sum} were replayed`)
    await play.restart("SIGKILL")
    await play.tell("/lanes/a/resume", undefined, 204)
    await play.until(async () => (await play.lane("a"))?.backlog === 0, "not all of it is delivered", 40)
    play.check(play.most(play.a) >= 4, "a replay went missing")
  }),
  attack("a sink is paused and resumed fifty times under load", async (play) => {
    await play.start({ a: play.to(play.a) })
    const busy = play.burst(500)
    await inTurns(Array(100).keys(), 4, async (n) => {
      const [verb, status] = n % 2 === 0 ? (["pause", 200] as const) : (["resume", 204] as const)
      await play.tell(`/lanes/a/${verb}`, undefined, status)
    })
    await busy
    await play.tell("/lanes/a/resume", undefined, 204)
    await play.has(play.a, play.acknowledged, "a")
  }),
  attack("twenty reloads at once, and a hundred SIGHUPs", async (play) => {
    await play.start({ a: play.to(play.a) })
    play.config({ a: play.to(play.a, { concurrency: 3 }) })
    const reloads = Array.from({ length: 20 }, () => play.apply())
    for (let n = 0; n < 100; n++) play.relay?.signal("SIGHUP")
    await Promise.all(reloads)
    await play.apply()
    await play.has(play.a, play.acknowledged, "a")
  }),
  attack("the admin API is asked 2,000 times, 50 at once", async (play) => {
    await play.start({})
    const paths = ["/api/v1/status", "/metrics", "/healthz", "/readyz", "/api/v1/events?limit=100", "/openapi.json"]
    await inTurns(Array(2_000).keys(), 50, async (n) => {
      const path = paths[n % paths.length] ?? ""
      const got = await status(play, path)
      play.check(got === 200, `${path} was answered ${got}`)
    })
  }),
  attack("requests of the admin API that nobody should make", async (play) => {
    await play.start({})
    for (const [path, init, statuses] of odd) {
      const got = await status(play, path, init)
      play.check(statuses.includes(got), `${path} was answered ${got}`)
    }
    const json = { "content-type": "application/json" }
    for (const body of ["[".repeat(1_000_000), "{", "null", '{"ids":[]}', "x".repeat(30_000_000)]) {
      const got = await status(play, "/api/v1/dead-letters/replay", { method: "POST", body, headers: json })
      play.check(got >= 400 && got < 500, `a replay of ${body.slice(0, 10)} was answered ${got}`)
    }
    const ids = JSON.stringify({ ids: Array.from({ length: 100_000 }, (_, n) => `steady:${n}`) })
    const got = await status(play, "/api/v1/dead-letters/drop", { method: "POST", body: ids, headers: json })
    play.check(got === 200 || got === 413, `a drop of 100,000 ids was answered ${got}`)
  }),
  attack("300 connections of the admin API that say nothing, or half a request", async (play) => {
    await play.start({})
    const [host = "", port] = play.subject.admin.split(":")
    const sockets = Array.from({ length: 300 }, (_, n) => {
      const socket = connect(Number(port), host)
      socket.on("error", () => {})
      if (n % 2 === 0) socket.write("POST /api/v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
      return socket
    })
    await play.burst(50)
    play.check((await status(play, "/healthz")) === 200, "/healthz does not answer")
    for (const socket of sockets) socket.destroy()
  }),
  attack("twenty taps that are never read", async (play) => {
    await play.start({ a: play.to(play.a) })
    const [host = "", port] = play.subject.admin.split(":")
    const sockets = Array.from({ length: 20 }, () => {
      const socket = connect(Number(port), host)
      socket.on("error", () => {})
      socket.write("GET /api/v1/tap HTTP/1.1\r\nHost: localhost\r\n\r\n")
      return socket.pause()
    })
    await play.burst(3_000)
    await play.has(play.a, play.acknowledged, "a")
    const used = memory(play.relay?.pid ?? 0)
    play.check(used < 1_024, `it uses ${used.toFixed(0)} MiB`)
    for (const socket of sockets) socket.destroy()
    play.check((await status(play, "/healthz")) === 200, "/healthz does not answer")
  }),
]
