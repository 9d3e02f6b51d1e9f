/** Alertmanager's API v2 by its schema (`api/v2/openapi.yaml`) and its real answers. */
import { common, fields, isText, isTime, json, list, parse, problem, type Service } from "../localService.ts"

const isName = (name: string): boolean => /^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name)

const problemsOf = (alert: unknown): ReadonlyArray<string> => {
  const { labels, annotations, startsAt, endsAt } = fields(alert)
  const names = [labels, annotations].flatMap((set) => Object.keys(fields(set)))
  const values = Object.values(fields(labels))
  return [
    ...common(alert),
    ...problem(values.length > 0, "at least one label pair required"),
    ...problem(names.every(isName), "invalid label set: invalid name"),
    ...problem(
      values.every((value) => isText(value, 1_024)),
      "labels",
    ),
    ...problem(typeof fields(annotations).summary === "string", "summary"),
    ...problem(isTime(endsAt), "endsAt"),
    ...problem(
      startsAt === undefined || (isTime(startsAt) && Date.parse(String(startsAt)) <= Date.parse(String(endsAt))),
      "start time must be before end time",
    ),
  ]
}

export const alertmanager: Service = {
  problems: (body) => {
    const alerts = list(parse(body))
    return [...problem(alerts.length === 1, "parsing alerts body failed"), ...alerts.flatMap(problemsOf)]
  },
  steady: (body) =>
    Buffer.from(
      Buffer.from(body)
        .toString("utf8")
        .replace(/"endsAt":"[^"]*"/, ""),
    ),
  accept: (response) => response.writeHead(200).end(),
  refuse: (response, problems) => json(response, 400, problems.join()),
}
