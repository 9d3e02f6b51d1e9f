/** The end of a run's output, and its verdict. A long log may be read from its end alone. */
import { mostUnstable, type Result, title } from "./Run.ts"

const sum = (numbers: ReadonlyArray<number>): number => numbers.reduce((all, one) => all + one, 0)

const indented = (text: string): string => text.replaceAll(/^/gm, "  ")

export const isGood = ({ failed, unstable, stopped }: Result): boolean =>
  failed.length === 0 && unstable.length <= mostUnstable && stopped === undefined

export const summary = (result: Result, seconds: number): string => {
  const { ended, failed, unstable, skipped, stopped } = result
  const passed = sum(ended.map((step) => step.passed))
  const tooMany = unstable.length > mostUnstable ? `, more than ${mostUnstable}` : ""
  return [
    ...skipped,
    ...ended.map(
      ({ step, ...counted }) =>
        `${counted.seconds.toFixed(0).padStart(4)} s  ${String(counted.passed).padStart(5)} passed  ${counted.failed} failed  ${step.name}`,
    ),
    ...(failed.length > 0 ? ["== what failed"] : []),
    ...failed.map((failure) => `${title(failure)}\n${indented(failure.said)}`),
    ...(unstable.length > 0 ? ["== unstable: failed once, and passed when it was run again alone"] : []),
    ...unstable.map((failure) => `${title(failure)}\n${indented(failure.said)}`),
    ...(stopped === undefined ? [] : [`== STOPPED: ${stopped}`]),
    `${passed + unstable.length} passed, ${failed.length} failed, ${unstable.length} unstable${tooMany} in ${seconds.toFixed(0)} s: ${isGood(result) ? "ok" : "FAILED"}`,
  ].join("\n")
}
