/** The part of `s3rver` that the tests use. The package has no types. */
declare module "s3rver" {
  interface Options {
    readonly address: string
    readonly port: number
    readonly silent: boolean
    readonly directory: string
  }
  export default class S3rver {
    constructor(options: Options)
    readonly store: { readonly putBucket: (name: string) => Promise<unknown> }
    run(): Promise<{ readonly port: number }>
    close(): Promise<unknown>
  }
}
