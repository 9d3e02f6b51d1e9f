-- Feeds wrk with the requests of a file, one after the other, and prints what
-- it measured as a line of JSON. Starts over at the end of the file: whoever
-- needs distinct requests compares their number with what was sent.
local file = io.open(os.getenv("BENCH_REQUESTS"), "rb")
file:setvbuf("full", 1048576)
local bytes = tonumber(os.getenv("BENCH_REQUEST_BYTES"))

request = function()
  local next = file:read(bytes)
  if not next then
    file:seek("set", 0)
    next = file:read(bytes)
  end
  return next
end

done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\nRESULT {"requests":%d,"micros":%d,"p50":%d,"p99":%d,"refused":%d,"broken":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout
  ))
end
