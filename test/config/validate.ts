/**
 * A validator for the subset of JSON Schema that `relay.schema.json` uses. It refuses a keyword that it doesn't know,
 * so it can't pass a value that it hasn't checked.
 */
type Json = Readonly<Record<string, unknown>>

const isJson = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)
const list = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])
const fields = (value: unknown): Json => (isJson(value) ? value : {})

const silent = new Set(["$schema", "$defs", "title", "description", "default", "examples"])

const isType = (value: unknown, type: unknown): boolean => {
  if (type === "array") return Array.isArray(value)
  if (type === "object") return isJson(value)
  if (type === "integer") return Number.isInteger(value)
  if (type === "null") return value === null
  return typeof value === type
}

/** Returns the faults of `value`, each as `path: keyword`. */
export const validate = (root: object, value: unknown): ReadonlyArray<string> => {
  const resolve = (ref: string): unknown =>
    ref
      .slice(2)
      .split("/")
      .reduce<unknown>((node, key) => fields(node)[key], root)

  const check = (schema: unknown, value: unknown, path: string): ReadonlyArray<string> =>
    Object.entries(fields(schema)).flatMap(([keyword, want]): ReadonlyArray<string> => {
      const no = (is: boolean): ReadonlyArray<string> => (is ? [] : [`${path}: ${keyword}`])
      const valid = (schema: unknown) => check(schema, value, path).length === 0
      const own = isJson(value) ? Object.entries(value) : []
      if (silent.has(keyword)) return []
      switch (keyword) {
        case "$ref":
          return check(resolve(String(want)), value, path)
        case "type":
          return no(Array.isArray(want) ? want.some((type) => isType(value, type)) : isType(value, want))
        case "const":
          return no(value === want)
        case "enum":
          return no(list(want).includes(value))
        case "pattern":
          return no(typeof value !== "string" || new RegExp(String(want), "u").test(value))
        case "minLength":
          return no(typeof value !== "string" || value.length >= Number(want))
        case "minItems":
          return no(!Array.isArray(value) || value.length >= Number(want))
        case "minimum":
          return no(typeof value !== "number" || value >= Number(want))
        case "maximum":
          return no(typeof value !== "number" || value <= Number(want))
        case "items":
          return list(value).flatMap((item, index) => check(want, item, `${path}[${index}]`))
        case "required":
          return no(!isJson(value) || list(want).every((key) => Object.hasOwn(value, String(key))))
        case "properties":
          return own.flatMap(([key, item]) => check(fields(want)[key], item, `${path}.${key}`))
        case "additionalProperties": {
          const others = own.filter(([key]) => !Object.hasOwn(fields(fields(schema).properties), key))
          return others.flatMap(([key, item]) =>
            want === false ? [`${path}.${key}: unknown key`] : check(want, item, `${path}.${key}`),
          )
        }
        case "anyOf":
          return no(list(want).some(valid))
        case "oneOf":
          return no(list(want).filter(valid).length === 1)
        case "allOf":
          return list(want).flatMap((one) => check(one, value, path))
        default:
          return [`${path}: the validator does not know ${keyword}`]
      }
    })
  return check(root, value, "")
}
