/**
 * Stands for what `@platformatic/kafka` loads and the relay never uses: Ajv, by which it checks options
 * that ask to be `strict`, and Avro, for a schema registry. Loading them and compiling its schemas takes
 * 18 MiB. `tsconfig.json` names this file in their place, to Bun and in a compiled binary.
 */
const unused = (): never => {
  throw new Error("the relay has no schemas: Kafka options must not be strict")
}

export class Ajv2020 {
  addKeyword(): void {}
  compile(): () => never {
    return unused
  }
}

export default Ajv2020
