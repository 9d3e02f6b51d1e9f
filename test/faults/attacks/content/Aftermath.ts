/**
 * Reads hostile events over the admin API and with commands. They must cause as little trouble there as on their way.
 */
import { relay } from "../../../lib/relay.ts"
import type { Stage } from "../Stage.ts"
import { deep, event, objects } from "./Content.ts"
import type { Scene } from "./Floods.ts"

const scene = (name: string, look: (stage: Stage) => Promise<ReadonlyArray<string>>): Scene => ({
  name,
  run: async (stage) => {
    const broken = [...(await look(stage))]
    const { body } = stage.honest("keyed")
    const status = await stage.send(body)
    if (status !== 202) broken.push(`an honest event behind it was answered ${status ?? "nothing"}`)
    return { acknowledged: status === 202 ? 1 : 0, lost: 0, broken }
  },
})

const answers = async (stage: Stage, path: string, status = 200): Promise<ReadonlyArray<string>> => {
  const response = await fetch(`http://${stage.subject.admin}${path}`)
  const text = await response.text()
  if (response.status !== status) return [`${path.slice(0, 60)} was answered ${response.status}: ${text.slice(0, 200)}`]
  return /\bat .+:\d+:\d+/.test(text) ? [`${path.slice(0, 60)} answers a stack`] : []
}

/** Characters that could move a terminal's cursor or reverse its text. Tabs and line ends may be printed. */
const control = /(?![\t\n])[\p{Cc}\p{Bidi_Control}]/u

const prints = async (stage: Stage, args: ReadonlyArray<string>, binary?: string): Promise<ReadonlyArray<string>> => {
  const { subject } = stage
  const { code, stdout, stderr } = await relay([...args, "-c", subject.config], {
    cwd: subject.directory,
    ...(binary === undefined ? {} : { binary }),
  })
  const words = args.join(" ")
  return [
    ...(code > 1 ? [`relay ${words} ended with ${code}: ${stderr.slice(0, 200)}`] : []),
    ...(control.test(stdout + stderr) ? [`relay ${words} prints control characters`] : []),
  ]
}

export const cases: ReadonlyArray<Scene> = [
  scene("the story of an event 150,000 deep", async (stage) => {
    const { id, body } = event("cloud", `{"deep":${objects(deep)}}`)
    await stage.send(body)
    return [
      ...(await answers(stage, `/api/v1/events/${id}`)),
      ...(await answers(stage, `/api/v1/events/${id}?reveal=true`)),
    ]
  }),
  scene("the story of an id that is __proto__", (stage) => answers(stage, "/api/v1/events/__proto__")),
  scene("the story of an id of half a character", (stage) => answers(stage, "/api/v1/events/%ED%A0%80", 404)),
  scene("a list of all events", (stage) => answers(stage, "/api/v1/events?limit=1000")),
  scene("a list of a type with a wildcard's characters", (stage) => answers(stage, "/api/v1/events?types=%7Ba,b", 409)),
  scene("a dead letter that does not exist", (stage) => answers(stage, "/api/v1/dead-letters/..%2F..%2Fstatus", 404)),
  scene("all metrics", (stage) => answers(stage, "/metrics")),
  scene("relay events", (stage) => prints(stage, ["events"])),
  scene("relay dlq list", (stage) => prints(stage, ["dlq", "list"])),
  scene("relay status", (stage) => prints(stage, ["status"])),
]
