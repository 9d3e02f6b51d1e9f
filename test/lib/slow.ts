/** `bun --preload slow.ts …`: a relay that takes more than five seconds to start. */
const { serve } = Bun
let isFirst = true

Object.assign(Bun, {
  serve: (...args: Parameters<typeof serve>) => {
    if (isFirst) Bun.sleepSync(5_100)
    isFirst = false
    return serve(...args)
  },
})
